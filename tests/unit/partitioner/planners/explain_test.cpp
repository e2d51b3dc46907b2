// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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
  EXPECT_THAT(join(e.sentences, "\n"),
              HasSubstr("If you move layer 7 (layer7) from stage 0 to stage "
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

// A pipeline over these kinds, one node each, with `layers` each; nobody waits for a server.
// Activations and gradients take `message` seconds on the way.
struct Planted {
  PlanRequest request;
  Plan plan;
};
Planted planted(const std::vector<std::string>& kinds, const std::vector<double>& layer_seconds,
                const std::vector<int>& layers, double message, int in_flight) {
  PlanRequest request;
  std::vector<std::vector<std::string>> nodes;
  for (const std::string& kind : kinds) nodes.push_back({kind});
  request.cluster = test::cluster_of(nodes, 1'000'000'000);
  request.cluster.inter_node = {4000 / message, 0, false};
  std::vector<std::string> names;
  for (const DeviceKind& kind : request.cluster.kinds) names.push_back(kind.name);
  int count = 0;
  for (const int of : layers) count += of;
  request.profile = test::chain_of(count, names, [&](const std::string& kind) {
    const auto at = std::find(kinds.begin(), kinds.end(), kind) - kinds.begin();
    return layer_seconds[static_cast<std::size_t>(at)] / 3;
  });
  for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 4;
  request.system = "pipedream";
  request.in_flight = in_flight;
  Plan plan = blank_plan(request);
  plan.in_flight = in_flight;
  PlanVirtualWorker& worker = plan.virtual_workers.emplace_back();
  int first = 0;
  for (std::size_t k = 0; k < layers.size(); ++k) {
    PlanStage& stage = worker.stages.emplace_back();
    stage.first_layer = first;
    stage.end_layer = first += layers[k];
    stage.devices = {{"n" + std::to_string(k), 0}};
  }
  predict(request, plan);
  return {request, plan};
}

std::string text_of(const Explanation& e) { return join(e.sentences, "\n"); }

// Each stage computes 18 ms while a message takes 24 ms: 75 % of the time.
TEST(ExplainLimit, ASlowLinkLimitsStagesThatComputeMostOfTheTime) {
  const Planted slow = planted({"fast", "fast"}, {3e-3, 3e-3}, {6, 6}, 24e-3, 8);
  const Explanation e = explain(slow.request, slow.plan);
  EXPECT_NEAR(e.bottleneck.busy, 0.75, 0.01);
  EXPECT_EQ(e.bottleneck.limited_by, "bandwidth");
  EXPECT_NEAR(e.remedies.bandwidth, 1.0 / 3, 0.01);
  EXPECT_NEAR(e.remedies.compute, 0, 0.01);
  EXPECT_NEAR(e.links.front().relative.value_or(0), e.remedies.bandwidth, 1e-9);
  EXPECT_THAT(text_of(e), HasSubstr(": the links' bandwidth limits it, above all between nodes."));
  EXPECT_THAT(text_of(e), HasSubstr("The stage that receives longest is stage "));
}

// The stage in the middle receives twice: 31 ms with what it computes. The first one, 28 ms,
// computes for 20 of them.
TEST(ExplainLimit, ASlowDeviceLimitsThoughAnotherStageTakesLongerInAll) {
  const Planted slow =
      planted({"slow", "fast", "fast"}, {5e-3, 3.75e-3, 3.75e-3}, {4, 4, 4}, 8e-3, 10);
  const Explanation e = explain(slow.request, slow.plan);
  EXPECT_EQ(e.bottleneck.limited_by, "compute");
  EXPECT_EQ(to_string(e.bottleneck.device), "n0:0");
  ASSERT_EQ(e.devices.size(), 2u);
  EXPECT_EQ(e.devices[0].what, "slow");
  EXPECT_NEAR(e.devices[0].relative.value_or(0), 20.0 / 16 - 1, 0.02);  // two messages: 16 ms
  EXPECT_NEAR(e.devices[1].relative.value_or(1), 0, 0.005);
  EXPECT_THAT(text_of(e), HasSubstr("Doubling the speed would give: slow +2"));
  EXPECT_THAT(text_of(e), HasSubstr(": compute limits it."));
}

// 24 ms and 12 ms, one after the other: the first device computes two thirds of the time.
TEST(ExplainLimit, TooLittleInFlightLimitsWhatComputesMostOfTheTime) {
  Planted one = planted({"fast", "fast"}, {3e-3, 3e-3}, {8, 4}, 1e-6, 1);
  const Explanation e = explain(one.request, one.plan);
  EXPECT_NEAR(e.bottleneck.busy, 2.0 / 3, 0.01);
  EXPECT_NEAR(e.remedies.depth.value_or(0), 0.5, 0.01);
  EXPECT_EQ(e.bottleneck.limited_by, "depth");
  EXPECT_THAT(text_of(e),
              HasSubstr("what limits these devices is the number of minibatches in flight."));
  EXPECT_THAT(text_of(e), HasSubstr("Nm = 1 could be higher: 2 fits"));
  std::int64_t most = 0;
  for (const SimulatedStage& stage :
       simulate(one.plan, one.request.cluster, one.request.profile).stages) {
    most = std::max(most, stage.memory);
  }
  one.request.cluster.kinds[0].memory = most;
  const Explanation tight = explain(one.request, one.plan);
  EXPECT_EQ(tight.bottleneck.limited_by, "memory");
  EXPECT_THAT(text_of(tight), HasSubstr("memory limits it, of which that needs more."));
}

TEST(ExplainLimit, WithEnoughInFlightComputeLimits) {
  const Planted deep = planted({"fast", "fast"}, {3e-3, 3e-3}, {8, 4}, 1e-6, 4);
  const Explanation e = explain(deep.request, deep.plan);
  EXPECT_EQ(e.bottleneck.limited_by, "compute");
  EXPECT_NEAR(e.remedies.compute, 1, 0.02);
  EXPECT_EQ(e.bottleneck.stage, 0);
  EXPECT_TRUE(e.devices.empty());  // there is one type
}

// A change is one of what the objective makes of samples/s: with half the virtual workers a sample
// is worth more.
TEST(Explain, ChangesAreOfTheObjective) {
  PlanRequest asked = request();
  asked.cluster = test::cluster_of({{"fast"}, {"fast"}}, 1'000'000'000);
  asked.in_flight = 1;
  asked.objective = PlanObjective::time_to_accuracy;
  asked.critical_batch = 32;
  const Plan plan = make_plan(asked);
  ASSERT_EQ(plan.virtual_workers.size(), 2u);
  const Explanation e = explain(asked, plan);
  EXPECT_EQ(e.objective, "time-to-accuracy");
  ASSERT_EQ(e.leave_out.size(), 2u);
  const Alternative& without = e.leave_out.front();
  EXPECT_NEAR(without.relative_throughput, -0.5, 0.05);
  ASSERT_TRUE(without.relative);
  PlanRequest one = asked;
  one.cluster = test::cluster_of({{"fast"}}, 1'000'000'000);
  one.cluster.nodes[0].name = without.what.substr(0, 2);
  const Plan alone = make_plan(one);
  EXPECT_NEAR(*without.relative,
              asked.worth(alone, alone.predicted->throughput) /
                      asked.worth(plan, plan.predicted->throughput) -
                  1,
              0.01);
  EXPECT_GT(*without.relative, without.relative_throughput + 0.1);
  EXPECT_THAT(text_of(e), HasSubstr("samples/s -"));
}

}  // namespace explain_test
}  // namespace hetpipe
