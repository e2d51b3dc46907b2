// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/lateness.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

// In minibatches of 32.
void expect_unseen(const Plan& plan, double summed, double late) {
  EXPECT_EQ(unseen_samples(plan).summed, summed * 32) << plan.system;
  EXPECT_EQ(unseen_samples(plan).late, late * 32) << plan.system;
}

TEST(Lateness, ByHand) {
  expect_unseen(plan_of("gpipe", 1, 1), 1, 0);
  expect_unseen(plan_of("dapple", 4, 1), 4, 0);
  expect_unseen(plan_of("pipedream", 1, 5), 1, 4);
  expect_unseen(plan_of("pipedream", 3, 5), 3, 12);
  expect_unseen(plan_of("hetpipe", 1, 1), 1, 0);
  expect_unseen(plan_of("ssp", 16, 1), 1, 15);
  expect_unseen(plan_of("hetpipe", 4, 4), 1, 3 + 3 * 5.5);
  Plan plan = plan_of("hetpipe", 4, 4, 4);  // pulls the newest: D does not show
  expect_unseen(plan, 1, 3 + 3 * 5.5);
  plan.server->pull = "bound";
  expect_unseen(plan, 1, 3 + 3 * (5.5 + 2));
  plan = plan_of("hetpipe", 2, 1);
  plan.virtual_workers[0].minibatch = 96;
  expect_unseen(plan, 2, 2);
  plan = plan_of("hetpipe", 2, 1);
  plan.sync = "outer";
  plan.server->round = 64;
  expect_unseen(plan, 1, 1 + 64 / 8);
  plan = plan_of("hetpipe", 4, 4);
  plan.sync = "server-step";
  expect_unseen(plan, 16, 6);
  plan.server->clock_distance = 4;
  expect_unseen(plan, 16, 6 + 4 * 16);
  plan.predicted.emplace().label_age = 0.5;
  expect_unseen(plan, 16, 6 + 8);
}

// Plans of these schedules say 1 for the minibatches in flight; how many are under way follows from
// stages and micro-batches (docs/schedules.md).
TEST(Lateness, CountsWhatSchedulesKeepUnderWay) {
  Plan plan = plan_of("xpipe", 1, 1);
  plan.micro_batches = 2;
  plan.virtual_workers[0].stages.resize(10);
  expect_unseen(plan, 1, 5);  // F of the tenth stage is 9 micro-batches behind: of 5 minibatches
  plan.virtual_workers.resize(2, plan.virtual_workers[0]);
  plan.virtual_workers[1].stages.resize(1);
  expect_unseen(plan, 2, 5);
  plan = plan_of("timeprest", 1, 1);
  plan.virtual_workers[0].stages.resize(3);
  expect_unseen(plan, 1, 1);  // B comes 2 minibatches after the newest that is done
  plan.micro_batches = 2;
  expect_unseen(plan, 1, 0);
}

TEST(Lateness, WhatItCostsByHand) {
  Plan plan = plan_of("hetpipe", 2, 1);  // 32 are summed, 32 late
  plan.optimizer = "adam";
  EXPECT_DOUBLE_EQ(samples_factor(plan, 64), 1 + 0.2 / 2 + 0.8 / 2);
  plan.optimizer = "muon";
  EXPECT_DOUBLE_EQ(samples_factor(plan, 64), 1 + 0.2 / 2 + 0.8 / 2);
  plan.optimizer = "sgd-momentum";
  EXPECT_DOUBLE_EQ(samples_factor(plan, 64), 2 * (1 + 1.0 / 2 + 3.0 / 2));
  plan.weights = "predicted";
  EXPECT_DOUBLE_EQ(samples_factor(plan, 64), 2 * (1 + 1.0 / 2 + 0.7 / 2));
  plan.optimizer = "adam";  // predictions go along steps that are not damped
  EXPECT_DOUBLE_EQ(samples_factor(plan, 64), 2 * (1 + 1.0 / 2 + 0.7 / 2));
}

TEST(Lateness, NoPlanHasASmallerFactorThanTheLeast) {
  for (const char* system : {"hetpipe", "dapple", "pipedream", "gpipe", "spectrain", "ssp"}) {
    for (const char* optimizer : {"adam", "sgd-momentum"}) {
      for (const int workers : {1, 3}) {
        Plan plan = plan_of(system, workers, 1);
        plan.optimizer = optimizer;
        const double least = least_samples_factor(composition(plan), optimizer,
                                                  static_cast<std::size_t>(workers), 32, 64);
        EXPECT_DOUBLE_EQ(samples_factor(plan, 64), least) << system;
        plan.in_flight = 5;
        EXPECT_GE(samples_factor(plan, 64), least) << system;
      }
    }
  }
}

// A training of benchmarks/results/2026-11-28-samples-to-target.md or, of steps at the servers,
// 2026-11-29-servers-optimizer-by-default.md: samples to its target, by those
// of damped Adam with one virtual worker and one minibatch of 32 in flight.
struct Training {
  const char* what;
  Plan plan;
  double samples;
};

Plan trained(const char* system, const char* optimizer, int workers, int in_flight,
             int minibatch = 32) {
  Plan plan = plan_of(system, workers, in_flight);
  plan.optimizer = optimizer;
  plan.minibatch = minibatch;
  return plan;
}

Plan xpipe_of(int workers, int stages, const char* optimizer) {
  Plan plan = trained("xpipe", optimizer, workers, 1);
  plan.micro_batches = 2;
  for (PlanVirtualWorker& worker : plan.virtual_workers) {
    worker.stages.resize(static_cast<std::size_t>(stages));
  }
  return plan;
}

Plan at_servers(int workers, int in_flight) {
  Plan plan = trained("hetpipe", "adam", workers, in_flight);
  plan.sync = "server-step";
  return plan;
}

TEST(Lateness, TrainingsTakeAsManySamplesAsItSays) {
  const std::vector<Training> trainings{
      {"lenet, 128 summed", trained("data-parallel", "adam", 1, 1, 128), 1.11},
      {"lenet, 256 summed", trained("data-parallel", "adam", 1, 1, 256), 1.16},
      {"lenet, 512 summed", trained("data-parallel", "adam", 1, 1, 512), 1.42},
      {"mlp, 256 summed", trained("data-parallel", "adam", 1, 1, 256), 1.04},
      {"mlp, 512 summed", trained("data-parallel", "adam", 1, 1, 512), 1.16},
      {"lenet, four of four", trained("hetpipe", "adam", 4, 4), 2.46},
      {"mlp, four of four", trained("hetpipe", "adam", 4, 4), 1.87},
      {"mlp to 84 %, two of four", trained("hetpipe", "adam", 2, 4), 1.47},
      {"mlp to 84 %, two of five", trained("pipedream", "adam", 2, 5), 1.81},
      {"lenet, one of four", trained("pipedream", "adam", 1, 4), 1.04},
      {"lenet, one of eight", trained("pipedream", "adam", 1, 8), 1.00},
      {"lenet, one of sixteen", trained("pipedream", "adam", 1, 16), 1.50},
      {"lenet, alone", trained("hetpipe", "sgd-momentum", 1, 1), 1.78},
      {"mlp to 84 %, alone", trained("hetpipe", "sgd-momentum", 1, 1), 2.57},
      {"lenet, 256 summed", trained("data-parallel", "sgd-momentum", 1, 1, 256), 2.72},
      {"mlp to 84 %, two of two", trained("pipedream", "sgd-momentum", 2, 2), 3.46},
      {"mlp to 84 %, two alone", trained("ssp", "sgd-momentum", 2, 1), 3.34},
      {"mlp to 84 %, two of two", trained("spectrain", "sgd-momentum", 2, 2), 2.61},
      {"lenet, one of four", trained("spectrain", "adam", 1, 4), 2.17},
      {"lenet, one of eight", trained("spectrain", "adam", 1, 8), 2.25},
      {"lenet, one of four", trained("spectrain", "sgd-momentum", 1, 4), 3.12},
      {"lenet, steps of 256", at_servers(4, 2), 1.18},
      {"lenet, steps of 512", at_servers(4, 4), 1.65},
      {"lenet, steps of 1,024", at_servers(4, 8), 2.56},
      {"lenet, steps of 1,664", at_servers(4, 13), 4.10},
      {"mlp, steps of 256", at_servers(4, 2), 1.16},
      {"mlp, steps of 512", at_servers(4, 4), 1.21},
      {"mlp, steps of 1,024", at_servers(4, 8), 2.28},
      {"mlp, steps of 1,664", at_servers(4, 13), 2.80},
      {"lenet, ten stages", xpipe_of(1, 10, "adam"), 2.37},
      {"lenet, ten stages", xpipe_of(1, 10, "sgd-momentum"), 2.63},
      {"lenet, two of eight stages", xpipe_of(2, 8, "sgd-momentum"), 2.73},
  };
  const double alone = samples_factor(trained("hetpipe", "adam", 1, 1), kCriticalBatch);
  double off = 0;
  for (const Training& one : trainings) {
    const double said = samples_factor(one.plan, kCriticalBatch) / alone;
    EXPECT_GT(said, one.samples / 1.45) << one.what << ", " << one.plan.system;
    EXPECT_LT(said, one.samples * 1.45) << one.what << ", " << one.plan.system;
    off += std::abs(std::log(said / one.samples)) / static_cast<double>(trainings.size());
  }
  EXPECT_LT(std::exp(off) - 1, 0.16);
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
    EXPECT_DOUBLE_EQ(unseen_samples(plan_of("hetpipe", 2, nm)).all(), 32 * (nm + of_others / nm))
        << nm;
  }
}

}  // namespace lateness_test
}  // namespace hetpipe
