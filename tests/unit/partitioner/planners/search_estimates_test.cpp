// SPDX-License-Identifier: Apache-2.0
// What the search ranks by before it simulates, against what simulate() says.
#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/planners/search_pace.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_space.h"
#include "partitioner/planners/search_sums.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace {

// Two nodes of two devices, and four layers whose gradients are large and whose activations are
// small.
PlanRequest two_nodes(const std::string& system) {
  PlanRequest request;
  request.cluster = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1'000'000'000);
  request.cluster.intra_node = {10e9, 1e-6, false};
  request.cluster.inter_node = {1e8, 1e-6, false};
  request.profile = test::chain_of(4, {"a"}, [](const std::string&) { return 10e-3; });
  for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 4'000'000;
  for (Measurement& m : request.profile.change().measurements) {
    for (auto& bytes : m.output_bytes) bytes = 1000;
  }
  request.minibatch = 32;
  request.system = system;
  request.objective = PlanObjective::throughput;
  return request;
}

struct Estimated {
  double estimate = 0;   // samples/s
  double simulated = 0;  // samples/s
};

Estimated estimated(const PlanRequest& request, const Allocation& composition, int micro_batches,
                    int in_flight = 1) {
  CutCache cuts;
  const std::vector<Packing> none;
  SearchSpace space(search_rows(request).front(), *request.minibatch, cuts, none);
  Knobs knobs = space.first_knobs(static_cast<int>(composition.front().size()));
  knobs.micro_batches = micro_batches;
  knobs.in_flight = in_flight;
  const auto plan = space.plan(composition, knobs);
  if (!plan) return {};
  return {estimated_throughput(space, *plan),
          simulate(*plan, request.cluster, request.profile).throughput};
}

const Allocation kNodeEach{{{"n0", 0}, {"n0", 1}}, {{"n1", 0}, {"n1", 1}}};
const Allocation kStageEach{{{"n0", 0}, {"n1", 0}}, {{"n0", 1}, {"n1", 1}}};

// Equal stages of two virtual workers on one node: their sums do not leave it.
TEST(SearchEstimates, AllReducesThatStayInANode) {
  const PlanRequest request = two_nodes("gpipe");
  const Estimated crossing = estimated(request, kNodeEach, 4);
  const Estimated inside = estimated(request, kStageEach, 4);
  ASSERT_GT(crossing.simulated, 0);
  EXPECT_GT(inside.simulated, 1.5 * crossing.simulated);
  EXPECT_NEAR(inside.estimate / inside.simulated, 1, 0.05);
  EXPECT_NEAR(crossing.estimate / crossing.simulated, 1, 0.25);
}

// Three virtual workers of unequal devices on three nodes, cut differently: what they take by
// themselves and what their sums add is what they take together.
TEST(SearchEstimates, SumsOfWorkersThatAreCutDifferently) {
  PlanRequest request = two_nodes("gpipe");
  request.cluster =
      test::cluster_of({{"fast", "slow"}, {"fast", "slow"}, {"slow", "slow"}}, 1'000'000'000);
  request.cluster.intra_node = {10e9, 1e-6, false};
  request.cluster.inter_node = {1e9, 1e-5, false};
  request.profile = test::chain_of(6, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 4e-3 : 8e-3; });
  for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 8'000'000;
  for (Measurement& m : request.profile.change().measurements) {
    for (auto& bytes : m.output_bytes) bytes = 100'000;
  }
  const Allocation workers{{{"n0", 1}, {"n1", 0}}, {{"n2", 0}, {"n0", 0}}, {{"n1", 1}, {"n2", 1}}};
  for (const char* system : {"gpipe", "pipedream-flush", "zero-bubble"}) {
    request.system = system;
    for (const int cut : {1, 2, 3, 4}) {
      CutCache cuts;
      const std::vector<Packing> none;
      SearchSpace space(search_rows(request).front(), *request.minibatch, cuts, none);
      Knobs knobs = space.first_knobs(2);
      knobs.micro_batches = 8;
      auto plan = space.plan(workers, knobs);
      ASSERT_TRUE(plan);
      for (std::size_t vw = 0; vw < 3; ++vw) {
        std::vector<PlanStage>& stages = plan->virtual_workers[vw].stages;
        stages[0].end_layer = stages[1].first_layer = vw == 1 ? cut : 3;
      }
      PlanScores scores(request.cluster, request.profile);
      const auto alone = scores.slowest_alone(*plan);
      ASSERT_TRUE(alone);
      const double sums = seconds_of_sums(space, *plan, space.paces(*plan));
      const double together = simulate(*plan, request.cluster, request.profile).iteration_seconds;
      EXPECT_GT(together, 1.05 * *alone) << system << ", " << cut;
      EXPECT_NEAR((*alone + sums) / together, 1, 0.06) << system << ", " << cut;
    }
  }
}

// What ZB-H1 gains by filling bubbles is seen before it is simulated.
TEST(SearchEstimates, BubblesOfZeroBubble) {
  for (const int micro_batches : {4, 8, 16}) {
    const Estimated split = estimated(two_nodes("zero-bubble"), kStageEach, micro_batches);
    const Estimated whole = estimated(two_nodes("pipedream-flush"), kStageEach, micro_batches);
    ASSERT_GT(whole.simulated, 0);
    EXPECT_GT(split.simulated, 1.01 * whole.simulated) << micro_batches;
    EXPECT_NEAR(split.estimate / split.simulated, 1, 0.05) << micro_batches;
    EXPECT_NEAR(whole.estimate / whole.simulated, 1, 0.05) << micro_batches;
  }
}

// Micro-batches of the next minibatch fill the pipeline while the last ones leave it.
TEST(SearchEstimates, NoBubbleWithoutAFlush) {
  for (const int micro_batches : {2, 8}) {
    const Estimated of = estimated(two_nodes("xpipe"), kStageEach, micro_batches);
    ASSERT_GT(of.simulated, 0);
    EXPECT_NEAR(of.estimate / of.simulated, 1, 0.05) << micro_batches;
  }
}

// Where computing takes longer than a wave's push and pull, estimates of all servers are equal;
// pushes at the same moment are not.
TEST(SearchEstimates, OfEqualServersThoseThatSendLess) {
  PlanRequest request = two_nodes("hetpipe");
  request.cluster = test::cluster_of({{"a"}, {"a"}, {"a"}}, 1'000'000'000);
  request.cluster.intra_node = {10e9, 1e-6, false};
  request.cluster.inter_node = {1e9, 1e-6, false};
  request.search.placements = {"default"};
  CutCache cuts;
  const std::vector<Packing> none;
  SearchSpace space(search_rows(request).front(), *request.minibatch, cuts, none);
  const auto choices = depth_choices(space, {{{"n0", 0}}, {{"n1", 0}}, {{"n2", 0}}});
  ASSERT_GT(choices.size(), 1U);
  EXPECT_TRUE(choices.front().knobs.server_nodes == kAllNodes);
  EXPECT_DOUBLE_EQ(choices.front().worth, choices[1].worth);
}

// A device pushes and pulls through its node's own link, too, where the server is beside it.
TEST(SearchEstimates, ServersOnTheSameNode) {
  PlanRequest request = two_nodes("ssp");
  request.placement = "local";
  request.cluster.intra_node = {0.2e9, 1e-6, false};
  const Estimated of = estimated(request, {{{"n0", 0}}, {{"n0", 1}}}, 1);
  ASSERT_GT(of.simulated, 0);
  EXPECT_NEAR(of.estimate / of.simulated, 1, 0.1);
}

// Every node's interface carries the messages of all virtual workers that cross it, and what they
// push and pull.
TEST(SearchEstimates, InterfacesThatAllVirtualWorkersShare) {
  PlanRequest request = two_nodes("hetpipe");
  request.clock_distance = 4;
  request.pull = "bound";
  for (Measurement& m : request.profile.change().measurements) {
    for (auto& bytes : m.output_bytes) bytes = 6'000'000;
  }
  const Estimated of = estimated(request, kStageEach, 1, 8);
  ASSERT_GT(of.simulated, 0);
  EXPECT_NEAR(of.estimate / of.simulated, 1, 0.1);
}

// Of the minibatches in flight that promise most as many are taken as fit, not one.
TEST(SearchEstimates, AsManyInFlightAsFit) {
  PlanRequest request = two_nodes("hetpipe");
  request.clock_distance = 0;
  for (ProfileLayer& layer : request.profile.change().layers) layer.parameter_bytes = 40'000'000;
  for (Measurement& m : request.profile.change().measurements) {
    for (auto& bytes : m.stash_bytes) bytes = 20'000'000;
  }
  CutCache cuts;
  const std::vector<Packing> none;
  SearchSpace space(search_rows(request).front(), *request.minibatch, cuts, none);
  PlanScores scores(request.cluster, request.profile);
  const auto choices = depth_choices(space, kNodeEach);
  ASSERT_FALSE(choices.empty());
  const auto fits = best_that_fits(space, scores, kNodeEach, choices);
  ASSERT_TRUE(fits);
  EXPECT_LT(fits->plan.in_flight, choices.front().knobs.in_flight);
  EXPECT_GT(fits->plan.in_flight, 2);
  Knobs deeper = space.knobs_of(fits->plan);
  deeper.in_flight += 2;
  const auto plan = space.plan(kNodeEach, deeper);
  EXPECT_FALSE(plan && scores.fits(*plan));
}

}  // namespace
}  // namespace hetpipe
