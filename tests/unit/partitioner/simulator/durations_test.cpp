// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/durations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/simulator/simulate.h"

// Recorded times of actions: the file, and replays worked out by hand.
namespace hetpipe {
namespace durations_test {

using test::user_error;
using testing::AllOf;
using testing::HasSubstr;

const std::string kHeader = "virtual worker,stage,replica,minibatch,micro-batch,kind,seconds\n";

std::string refused(const std::string& text) {
  return user_error([&] { parse_durations(text, "d.csv"); });
}

TEST(Durations, ColumnsInAnyOrderAndSpelling) {
  const Durations read = parse_durations(
      "seconds,Kind,micro_batch,minibatch,replica,stage,virtual_worker\r\n"
      "0.5,F,1,7,0,2,3\r\n\r\n 0.25 , weight_gradient ,0,8,1,2,3\r\n1e-3,update,,7,0,2,3\n"
      "9,V,1,7,0,2,3\n",
      "d.csv");
  ASSERT_EQ(read.rows().size(), 3u);
  EXPECT_EQ(read.rest(), 1u);
  EXPECT_EQ(read.first(), 7);
  EXPECT_EQ(read.minibatches(), 2);
  EXPECT_EQ(read.find(Timed::forward, {3, 2, 0}, 7, 1)->seconds, 0.5);
  EXPECT_EQ(read.find(Timed::weight_gradient, {3, 2, 1}, 8, 0)->seconds, 0.25);
  EXPECT_EQ(read.find(Timed::update, {3, 2, 0}, 7, 0)->seconds, 1e-3);
  EXPECT_EQ(read.find(Timed::update, {3, 2, 1}, 7, 0), nullptr);
  const Durations again = parse_durations(to_csv(read), "again.csv");
  ASSERT_EQ(again.rows().size(), 3u);
  for (const Duration& row : read.rows()) {
    EXPECT_EQ(again.find(row.what, row.where, row.minibatch, row.micro)->seconds, row.seconds);
  }
}

TEST(Durations, SayWhatIsWrongWithAFile) {
  EXPECT_THAT(refused(""), HasSubstr("d.csv: holds no time of an action"));
  EXPECT_THAT(refused(kHeader), HasSubstr("d.csv: holds no time of an action"));
  EXPECT_THAT(refused("stage,replica,minibatch,micro-batch,kind\n"),
              HasSubstr("d.csv:1: column 'virtual worker', 'seconds' is missing"));
  EXPECT_THAT(refused("stage,replicas\n"),
              HasSubstr("d.csv:1: unknown column 'replicas' (did you mean 'replica'?)"));
  EXPECT_THAT(refused("stage,stage\n"), HasSubstr("d.csv:1: column 'stage' is given twice"));
  EXPECT_THAT(refused(kHeader + "0,0,0,0,0,F\n0,0,0,-1,0,F,1\n0,0,0,1,0,G,1\n0,0,0,1,0,F,nan\n"),
              AllOf(HasSubstr("d.csv:2: 6 values (there are 7 columns)"),
                    HasSubstr("d.csv:3: minibatch = '-1' (a number counted from 0)"),
                    HasSubstr("d.csv:4: unknown kind 'G'"),
                    HasSubstr("d.csv:5: seconds = 'nan' (a time is a number of seconds")));
  EXPECT_THAT(refused(kHeader + "0,1,0,4,2,F,1\n0,1,0,4,2,forward,2\n"),
              HasSubstr("d.csv:3: F of minibatch 4, micro-batch 2, at virtual worker 0, stage 1, "
                        "replica 0 is given twice (first in line 2"));
}

Cluster pool() {
  Cluster cluster = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1'000'000'000);
  cluster.intra_node = cluster.inter_node = {1e30, 0, false};
  return cluster;
}
Profile layers() {  // forward 100 s, backward 200 s: nothing that is replayed
  return test::chain_of(2, {"a"}, [](const auto&) { return 100.0; });
}

// Virtual workers of one layer on each of so many stages, or of one stage.
Plan plan_of(const std::string& system, int workers, int stages) {
  Plan plan;
  plan.system = system;
  plan.model = "chain";
  for (int vw = 0; vw < workers; ++vw) {
    PlanVirtualWorker& worker = plan.virtual_workers.emplace_back();
    for (int k = 0; k < stages; ++k) {
      PlanStage& stage = worker.stages.emplace_back();
      stage.first_layer = 2 * k / stages;
      stage.end_layer = 2 * (k + 1) / stages;
      stage.devices = {{"n" + std::to_string(vw), k}};
    }
  }
  return plan;
}

Plan two_stages() {
  Plan plan = plan_of("pipedream-flush", 1, 2);
  plan.micro_batches = 2;
  return plan;
}

Simulation replay(const Plan& plan, const std::string& rows, std::optional<int> minibatches = {}) {
  const Durations durations = parse_durations(kHeader + rows, "d.csv");
  SimulationRequest request;
  request.durations = &durations;
  request.minibatches = minibatches;
  return simulate(plan, pool(), layers(), request);
}

// stage 0: F0.0 0-1, F0.1 1-3, B0.0 12-15, B0.1 27-31, U
// stage 1: F0.0 1-6, B0.0 6-12, F0.1 12-19, B0.1 19-27, U
const std::string kTwoStages =
    "0,0,0,0,0,F,1\n0,0,0,0,1,F,2\n0,0,0,0,0,B,3\n0,0,0,0,1,B,4\n0,0,0,0,0,U,0.5\n"
    "0,1,0,0,0,F,5\n0,1,0,0,0,B,6\n0,1,0,0,1,F,7\n0,1,0,0,1,B,8\n0,1,0,0,0,U,0.25\n";

TEST(Replay, TakesTheTimesOfTheFile) {
  const Simulation s = replay(two_stages(), kTwoStages);
  ASSERT_TRUE(s.replayed);
  EXPECT_NEAR(s.replayed->seconds, 31.5, 1e-9);
  EXPECT_EQ(s.replayed->minibatches, 1);
  EXPECT_EQ(s.replayed->recorded, 10);
  EXPECT_EQ(s.replayed->medians, 0);
  EXPECT_NEAR(s.stages[1].busy_seconds, 26.25, 1e-9);
}

// F0.0 1.5-6.5, B0.0 -12.5, its gradient 14.5 (B0.0 at stage 0 -17.5), F0.1 -19.5, B0.1 -27.5
TEST(Replay, MessagesTakeTheTimesOfTheFileWhereItHasThem) {
  const Simulation s =
      replay(two_stages(), kTwoStages + "0,1,0,0,0,activations,0.5\n0,0,0,0,0,gradients,2\n");
  EXPECT_NEAR(s.replayed->seconds, 32, 1e-9);
  EXPECT_EQ(s.replayed->recorded, 12);
  // One that comes later than anything else: B0.0 at stage 0 at 32.5-35.5, B0.1 -39.5.
  EXPECT_NEAR(replay(two_stages(), kTwoStages + "0,0,0,0,0,gradients,20.5\n").replayed->seconds, 40,
              1e-9);
}

TEST(Replay, MinibatchesBehindTheRecordedOnesTakeMedians) {
  std::string rows;
  for (int p = 0; p < 3; ++p) {  // of one stage; numbers as of a run that resumed
    const std::string of = "0,0,0," + std::to_string(p + 8);
    rows += of + ",0,F," + std::to_string(1 + p * p) + "\n" + of + ",0,B,10\n" + of + ",0,U,0\n";
  }
  const Plan plan = plan_of("data-parallel", 1, 1);
  EXPECT_NEAR(replay(plan, rows).replayed->seconds, 8 + 30, 1e-9);
  const Simulation longer = replay(plan, rows, 5);
  EXPECT_NEAR(longer.replayed->seconds, 8 + 30 + 2 * (2 + 10), 1e-9);
  EXPECT_EQ(longer.replayed->medians, 6);
  const Simulation shorter = replay(plan, rows, 2);
  EXPECT_NEAR(shorter.replayed->seconds, 3 + 20, 1e-9);
  EXPECT_EQ(shorter.replayed->recorded, 6);
}

TEST(Replay, KindsWithoutRowsAreTheProfiles) {
  const Simulation s = replay(plan_of("data-parallel", 1, 1), "0,0,0,0,0,F,1\n");
  EXPECT_NEAR(s.replayed->seconds, 1 + 400, 1e-9);
  EXPECT_EQ(s.replayed->of_profile, (std::vector<std::string>{"B", "U"}));
}

TEST(Replay, RefusesWhatDoesNotMatchThePlan) {
  const auto error = [](const std::string& rows) {
    return user_error([&] { replay(two_stages(), rows); });
  };
  const std::string without =
      kTwoStages.substr(0, kTwoStages.find("0,1,0,0,1,F")) + "0,1,0,0,1,B,8\n0,1,0,0,0,U,1\n";
  EXPECT_THAT(error(without), HasSubstr("d.csv: has no F of minibatch 0, micro-batch 1, at virtual "
                                        "worker 0, stage 1, replica 0 (the plan has it"));
  EXPECT_THAT(error(kTwoStages + "0,1,0,0,0,W,1\n"),
              HasSubstr("d.csv:12: W of minibatch 0, micro-batch 0, at virtual worker 0, stage 1, "
                        "replica 0 is not in the plan"));
  EXPECT_THAT(error(kTwoStages + "0,2,0,0,0,F,1\n"), HasSubstr("d.csv:12: F of minibatch 0"));
  EXPECT_THAT(error(kTwoStages + "0,0,0,0,0,activations,1\n"),
              HasSubstr("d.csv:12: activations of minibatch 0"));
}

// Gradients are handed over at 3 and 7 s; the sums are there at 7.5 and 7.25.
TEST(Replay, SumsComeAfterTheLastGradients) {
  const std::string rows =
      "0,0,0,0,0,F,1\n0,0,0,0,0,B,2\n0,0,0,0,0,U,1\n0,0,0,0,0,sum,0.5\n"
      "1,0,0,0,0,F,3\n1,0,0,0,0,B,4\n1,0,0,0,0,U,1\n1,0,0,0,0,sum,0.25\n";
  EXPECT_NEAR(replay(plan_of("data-parallel", 2, 1), rows).replayed->seconds, 8.5, 1e-9);
}

TEST(Replay, RefusesMinibatchesThatOnlyOneHasOfThoseThatSum) {
  const std::string rows = "0,0,0,0,0,F,1\n1,0,0,0,0,F,1\n1,0,0,1,0,F,1\n";
  EXPECT_THAT(user_error([&] { replay(plan_of("data-parallel", 2, 1), rows); }),
              HasSubstr("d.csv: ends with minibatch 0 of virtual worker 0 and with minibatch 1 of "
                        "virtual worker 1"));
  EXPECT_THAT(user_error([&] { replay(plan_of("data-parallel", 2, 1), "0,0,0,0,0,F,1\n"); }),
              HasSubstr("d.csv: ends with minibatch 0 of virtual worker 0"));
  EXPECT_THAT(
      user_error([&] { replay(plan_of("data-parallel", 1, 1), "0,0,0,3,0,F,1\n0,0,0,9,0,F,1\n"); }),
      HasSubstr("d.csv: has 2 rows of minibatches 3 to 9"));
}

// Waves of one minibatch, pushed at 3 and 5 s. D = 0: gates open at 5.5 and 5.25; so the second
// ones end at 8.5 and 10.25. Without a bound, snapshots take as long from the gate on: at 3.5 and
// 5.25.
TEST(Replay, SnapshotsComeAfterTheLastPush) {
  std::string rows;
  for (const std::string p : {"0", "1"}) {
    rows += "0,0,0," + p + ",0,F,1\n0,0,0," + p + ",0,B,1\n0,0,0," + p + ",0,U,1\n" +  //
            "1,0,0," + p + ",0,F,2\n1,0,0," + p + ",0,B,2\n1,0,0," + p + ",0,U,1\n";
  }
  rows += "0,0,0,1,0,snapshot,0.5\n1,0,0,1,0,snapshot,0.25\n";
  Plan plan = plan_of("ssp", 2, 1);
  plan.server.emplace().nodes = {"n0"};
  const Simulation bound = replay(plan, rows);
  EXPECT_NEAR(bound.replayed->seconds, 10.25, 1e-9);
  EXPECT_NEAR(bound.stages[0].busy_seconds, 3, 1e-9);  // of its window, the second minibatch
  plan.system = "asp";
  EXPECT_NEAR(replay(plan, rows).replayed->seconds, 10.25, 1e-9);
  rows.replace(rows.find("0,0,0,1,0,snapshot,0.5"), 22, "0,0,0,1,0,snapshot,7.5");
  EXPECT_NEAR(replay(plan, rows).replayed->seconds, 3 + 7.5 + 3, 1e-9);
  plan.system = "ssp";
  EXPECT_NEAR(replay(plan, rows).replayed->seconds, 5 + 7.5 + 3, 1e-9);
}

}  // namespace durations_test
}  // namespace hetpipe
