// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "../cases.h"
#include "../schedule/zero_bubble_tables.h"
#include "partitioner/schedule/generate.h"
#include "partitioner/simulator/simulate.h"

// Every schedule through simulate(), against published numbers and closed forms.
namespace hetpipe {
namespace schedules_test {

// One layer per stage, a device and a node each; latency alone between them.
struct Line {
  Cluster cluster;
  Profile profile;
  Plan plan;
};

Line line_of(int stages, int chunks, int micro_batches, double forward, double backward,
             double weight_gradient, double message, const std::string& schedule) {
  Line line;
  line.cluster = test::cluster_of(
      std::vector<std::vector<std::string>>(static_cast<std::size_t>(stages), {"a"}),
      1'000'000'000);
  line.cluster.inter_node = {1e30, message, false};
  line.profile = test::chain_of(stages * chunks, {"a"}, [&](const auto&) { return forward; });
  Measurement& m = line.profile.measurements[0];
  m.batch = 1;
  m.backward.assign(m.forward.size(), backward);
  m.weight_gradient.assign(m.forward.size(), weight_gradient);
  line.plan.system = schedule.substr(0, 2) == "zb" ? "zero-bubble" : "gpipe";
  line.plan.schedule = schedule;
  line.plan.model = "chain";
  line.plan.minibatch = line.plan.micro_batches = micro_batches;
  PlanVirtualWorker worker;
  for (int j = 0; j < stages * chunks; ++j) {
    PlanStage stage;
    stage.first_layer = j;
    stage.end_layer = j + 1;
    stage.devices = {{"n" + std::to_string(j % stages), 0}};
    worker.stages.push_back(stage);
  }
  line.plan.virtual_workers.push_back(worker);
  return line;
}

double iteration_seconds(const Line& line) {
  return simulate(line.plan, line.cluster, line.profile).iteration_seconds;
}

TEST(ZeroBubble, AllPublishedRatesToFourDecimals) {
  const char* schedules[] = {"1f1b-flush", "zb-h1", "zb-h2"};
  for (const test::ZeroBubbleRow& row : test::kZeroBubble) {
    for (std::size_t i = 0; i < 3; ++i) {
      const double cost = iteration_seconds(line_of(
          row.stages, 1, row.micro_batches, row.forward, row.input_gradient + row.weight_gradient,
          row.weight_gradient, row.message, schedules[i]));
      EXPECT_EQ(std::round(row.rate(cost) * 1e4), std::round(row.rates[i] * 1e4))
          << schedules[i] << " " << row.stages << " stages, " << row.micro_batches;
    }
  }
}

// Forward 1, backward 2, no communication: the iteration is M (F + B) and the bubble.
TEST(Bubble, ClosedFormsOfEqualStages) {
  constexpr double kForward = 1;
  constexpr double kBackward = 2;
  for (const int p : {1, 2, 3, 4, 8}) {
    for (const int m : {2 * p, 3 * p, 4 * p}) {
      const auto bubble = [&](const std::string& schedule, int chunks = 1, double w = 1) {
        const double busy = m * chunks * (kForward + kBackward);
        const double all =
            iteration_seconds(line_of(p, chunks, m, kForward, kBackward, w, 0, schedule));
        return (all - busy) / busy;
      };
      const double least = static_cast<double>(p - 1) / m;  // of the ideal time
      EXPECT_NEAR(bubble("gpipe"), least, 1e-9);            // (K - 1) / (M + K - 1) of the whole
      EXPECT_NEAR(bubble("1f1b-flush"), least, 1e-9);
      EXPECT_NEAR(bubble("dapple-pa"), least, 1e-9);
      EXPECT_NEAR(bubble("dapple-pb"), least, 1e-9);
      for (const int v : {2, 3}) EXPECT_NEAR(bubble("interleaved-1f1b", v), least / v, 1e-9);
      // (p - 1)(TF + TB - TW) and (p - 1)(TF + TB - 2 TW), here with TF = TB = TW = 1.
      EXPECT_NEAR(bubble("zb-h1"), least / 3, 1e-9) << p << " " << m;
      EXPECT_NEAR(bubble("zb-h2"), 0, 1e-9) << p << " " << m;
    }
  }
}

// In the steady state of equal stages a continuous schedule keeps everybody busy.
TEST(Bubble, ContinuousSchedulesHaveNone) {
  for (const char* schedule : {"continuous-1f1b", "xpipe"}) {
    for (const int stages : {1, 2, 4}) {
      Line line = line_of(stages, 1, 2, 1, 2, 1, 0, schedule);
      line.plan.system = "pipedream";
      line.plan.in_flight = stages;
      EXPECT_NEAR(iteration_seconds(line), 6, 1e-9) << schedule << " " << stages;
    }
  }
}

// nF1B: one B for all micro-batches of a minibatch, which runs their forward again (2 x 1 s more)
// where it is recomputed.
TEST(Schedules, TheNewestWeightsCostAForward) {
  Line line = line_of(1, 1, 2, 1, 2, 1, 0, "");
  line.plan.system = "timeprest";
  EXPECT_NEAR(iteration_seconds(line), 2 * (1 + 2 + 1), 1e-9);
  line.plan.weights = "mixed";
  EXPECT_NEAR(iteration_seconds(line), 2 * (1 + 2), 1e-9);
}

TEST(Schedules, RecomputingRunsTheForwardAgain) {
  Line line = line_of(2, 1, 4, 1, 2, 1, 0, "gpipe");
  EXPECT_NEAR(iteration_seconds(line), 5 * 3, 1e-9);
  for (PlanStage& stage : line.plan.virtual_workers[0].stages) stage.recompute = true;
  // Stage 0 has done its first forward again when the gradient arrives.
  EXPECT_NEAR(iteration_seconds(line), 5 * 4 - 1, 1e-9);
}

TEST(Schedules, WhatCannotBeGeneratedIsSaid) {
  const Line line = line_of(3, 2, 4, 1, 2, 1, 0, "interleaved-1f1b");
  EXPECT_THAT(test::user_error([&] { iteration_seconds(line); }), testing::HasSubstr("multiple"));
}

}  // namespace schedules_test
}  // namespace hetpipe
