// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "base/text.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace explain_test {

using testing::HasSubstr;

// One virtual worker of two equal devices, the first with 8 of 12 equal layers.
PlanRequest request() {
  PlanRequest request;
  request.cluster = test::cluster_of({{"fast", "fast"}}, 1'000'000'000);
  request.profile = test::chain_of(12, {"fast"}, [](const auto&) { return 1e-3; });
  request.policy = "np";
  return request;
}

Plan lopsided(const PlanRequest& request, int cut) {
  Plan plan = make_plan(request);
  plan.virtual_workers[0].stages[0].end_layer = cut;
  plan.virtual_workers[0].stages[1].first_layer = cut;
  predict(request, plan);
  return plan;
}

TEST(Explain, ALayerMovedFromTheBottleneckIsSimulated) {
  const PlanRequest asked = request();
  const Plan plan = lopsided(asked, 8);
  const Explanation e = explain(asked, plan);
  EXPECT_EQ(e.bottleneck.stage, 0);
  EXPECT_EQ(e.bottleneck.limited_by, "compute");
  EXPECT_NEAR(e.bottleneck.compute_seconds, 8 * 3e-3, 1e-12);
  EXPECT_NEAR(e.bottleneck.busy + e.bottleneck.communication + e.bottleneck.bubble, 1, 1e-9);
  ASSERT_EQ(e.moves.size(), 1u);  // stage 0 has one neighbour
  EXPECT_EQ(e.moves[0].what, "move layer 7 (layer7) from stage 0 to stage 1");
  const double expected = lopsided(asked, 7).predicted->throughput / plan.predicted->throughput - 1;
  ASSERT_TRUE(e.moves[0].relative);
  EXPECT_DOUBLE_EQ(*e.moves[0].relative, expected);
  EXPECT_GT(expected, 0.1);  // 8/7 as fast where nothing else limits it
  EXPECT_THAT(join(e.sentences, "\n"), HasSubstr("If you move layer 7 (layer7) from stage 0 to stage "
                                                 "1: +1"));
}

TEST(Explain, TheBestCutIsNotImprovedByAMove) {
  const PlanRequest asked = request();
  const std::vector<Alternative> moves = explain(asked, make_plan(asked)).moves;
  ASSERT_FALSE(moves.empty());
  for (const Alternative& move : moves) {
    EXPECT_LE(move.relative.value_or(-1), 1e-9) << move.what;
  }
}

TEST(Explain, WhatLimitsTheMinibatchesInFlight) {
  PlanRequest asked = request();
  const DepthLimit enough = explain(asked, make_plan(asked)).depth;
  EXPECT_EQ(enough.what, "Nm");
  EXPECT_EQ(enough.limited_by, "throughput");
  EXPECT_EQ(enough.tried, enough.now + 1);
  asked.in_flight = 1;  // two stages, one at work
  const DepthLimit more = explain(asked, make_plan(asked)).depth;
  EXPECT_EQ(more.limited_by, "");
  EXPECT_GT(more.relative.value_or(0), 0.3);
  // Memory for one in flight and not for two: the ledger says how much is missing.
  Plan plan = make_plan(asked);
  std::int64_t most = 0;
  const Explanation before = explain(asked, plan);
  for (const SimulatedStage& stage : simulate(plan, asked.cluster, asked.profile).stages) {
    most = std::max(most, stage.memory);
  }
  asked.cluster.kinds[0].memory = most;
  const Explanation tight = explain(asked, plan);
  EXPECT_EQ(tight.depth.limited_by, "memory");
  EXPECT_GT(tight.depth.missing_bytes, 0);
  EXPECT_THAT(join(tight.sentences, "\n"), HasSubstr("Nm = 1 is limited by memory: with 2, stage"));
}

TEST(Explain, ADeviceThatHoldsTheOthersUpIsWorthLeavingOut) {
  PlanRequest asked = request();
  asked.cluster = test::cluster_of({{"fast", "fast"}, {"snail"}}, 1'000'000'000);
  asked.policy = "np";  // the snail is a virtual worker of its own, for which all wait
  asked.profile = test::chain_of(12, {"fast", "snail"},
                                 [](const auto& kind) { return kind == "fast" ? 1e-3 : 100e-3; });
  const Explanation e = explain(asked, make_plan(asked));
  ASSERT_EQ(e.leave_out.size(), 2u);
  EXPECT_EQ(e.leave_out[0].what, "n1:0 snail");
  EXPECT_GT(e.leave_out[0].relative.value_or(0), 1);
  EXPECT_THAT(join(e.sentences, "\n"), HasSubstr("Worth leaving out: n1:0 snail, +"));
}

TEST(Explain, AFasterLinkIsSimulated) {
  PlanRequest asked = request();
  asked.cluster = test::cluster_of({{"fast"}, {"fast"}}, 1'000'000'000);
  asked.cluster.inter_node = {2e6, 0, false};  // 4000 bytes an activation: 2 ms, and 2 ms back
  asked.virtual_workers = 1;
  asked.in_flight = 1;
  const Plan plan = make_plan(asked);
  const Explanation e = explain(asked, plan);
  ASSERT_EQ(e.links.size(), 2u);
  EXPECT_EQ(e.links[0].what, "between nodes");
  Cluster faster = asked.cluster;
  faster.inter_node.bandwidth *= 2;
  EXPECT_DOUBLE_EQ(
      *e.links[0].relative,
      simulate(plan, faster, asked.profile).throughput / plan.predicted->throughput - 1);
  EXPECT_GT(*e.links[0].relative, 0);
  // Inside the server's node only weights travel, a few kB.
  EXPECT_LT(*e.links[1].relative, *e.links[0].relative / 1000);
}

}  // namespace explain_test
}  // namespace hetpipe
