// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/lateness.h"

#include <gtest/gtest.h>

#include "partitioner/plan/system.h"

namespace hetpipe {
namespace lateness_test {

Plan plan_of(const std::string& system, int workers, int in_flight, int distance = 0) {
  Plan plan;
  plan.system = system;
  plan.in_flight = in_flight;
  plan.virtual_workers.resize(static_cast<std::size_t>(workers));
  if (traits(composition(plan).sync).waves()) {
    plan.server.emplace();
    plan.server->nodes = {"n0"};
    plan.server->clock_distance = distance;
  }
  return plan;
}

TEST(Lateness, ByHand) {
  EXPECT_EQ(unseen_samples(plan_of("gpipe", 1, 1)), 32);
  EXPECT_EQ(unseen_samples(plan_of("dapple", 4, 1)), 4 * 32);
  EXPECT_EQ(unseen_samples(plan_of("pipedream", 1, 5)), 5 * 32);
  EXPECT_EQ(unseen_samples(plan_of("hetpipe", 1, 1)), 32);
  EXPECT_EQ(unseen_samples(plan_of("ssp", 16, 1)), 16 * 32);
  EXPECT_EQ(unseen_samples(plan_of("hetpipe", 4, 4)), (4 + 3 * 5.5) * 32);
  Plan plan = plan_of("hetpipe", 4, 4, 4);  // pulls the newest: D does not show
  EXPECT_EQ(unseen_samples(plan), (4 + 3 * 5.5) * 32);
  plan.server->pull = "bound";
  EXPECT_EQ(unseen_samples(plan), (4 + 3 * (5.5 + 2)) * 32);
  plan = plan_of("hetpipe", 2, 1);
  plan.virtual_workers[0].minibatch = 96;
  EXPECT_EQ(unseen_samples(plan), 32 + 96);
  EXPECT_EQ(samples_factor(plan, 64), 3);
  plan = plan_of("hetpipe", 2, 1);
  plan.sync = "outer";
  plan.server->round = 64;
  EXPECT_EQ(unseen_samples(plan), (1 + 1 + 64 / 8) * 32);
}

TEST(Lateness, NoPlanHasASmallerFactorThanTheLeast) {
  for (const char* system : {"hetpipe", "dapple", "pipedream", "gpipe"}) {
    for (const int workers : {1, 3}) {
      const double least = least_samples_factor(static_cast<std::size_t>(workers), 32, 64);
      EXPECT_EQ(samples_factor(plan_of(system, workers, 1), 64), least) << system;
      EXPECT_GE(samples_factor(plan_of(system, workers, 5), 64), least) << system;
    }
  }
}

// The mean over a wave of what the rules of waves say (docs/wsp.md): minibatch p of one virtual
// worker rests on the label that the gate before it granted, and misses what the others, which keep
// pace, have computed by then, and the one beside it.
TEST(Lateness, AsTheRulesOfWavesSay) {
  for (const int nm : {1, 2, 5}) {
    constexpr int kWave = 3;
    double of_others = 0;
    for (int p = kWave * nm; p < (kWave + 1) * nm; ++p) {
      // The gate of a wave stands before its last minibatch.
      const int label = p == (kWave + 1) * nm - 1 ? kWave : kWave - 1;
      of_others += p + 1 - label * nm;
    }
    EXPECT_DOUBLE_EQ(unseen_samples(plan_of("hetpipe", 2, nm)), 32 * (nm + of_others / nm)) << nm;
  }
}

}  // namespace lateness_test
}  // namespace hetpipe
