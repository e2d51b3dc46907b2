// SPDX-License-Identifier: Apache-2.0
// What the search starts from, and what it asks of smaller pools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../cases.h"
#include "base/index.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_effort.h"
#include "partitioner/planners/search_leave_out.h"
#include "partitioner/planners/search_run.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/schedule/generate.h"
#include "six_devices.h"

namespace hetpipe {
namespace search_parts_test {

PlanRequest six_devices() { return test::six_devices(SystemChoice::any); }

std::set<std::string> origins(const SearchResult& result) {
  std::set<std::string> names;
  for (const SearchCandidate& candidate : result.considered) names.insert(candidate.origin);
  return names;
}

// Plans do not limit what DAPPLE holds: without a limit it does what PipeDream-flush does, whose
// row would find the same plans.
TEST(SearchRows, OfSystemsThatDoTheSameAreOne) {
  std::set<std::string> systems;
  for (const SearchRow& row : search_rows(six_devices())) systems.insert(row.request.system);
  EXPECT_TRUE(systems.contains("dapple"));
  EXPECT_FALSE(systems.contains("pipedream-flush"));
  EXPECT_TRUE(systems.contains("gpipe"));
  for (const int stages : {1, 2, 5}) {
    for (const int micro_batches : {1, 3, 8}) {
      ScheduleRequest request;
      request.stages = stages;
      request.micro_batches = micro_batches;
      request.end = 2;
      EXPECT_EQ(generate(ScheduleRule::dapple_pa, request),
                generate(ScheduleRule::flush_1f1b, request));
    }
  }
}

// PipeDream's planner plans for its own weights and for 2BW's: the memory of these is another.
TEST(SearchSeeds, PipedreamsPlannerForBothOfItsWeights) {
  const std::set<std::string> names = origins(search_plans(six_devices()));
  EXPECT_TRUE(names.contains("pipedream's planner"));
  EXPECT_TRUE(names.contains("pipedream-2bw's planner"));
  EXPECT_TRUE(names.contains("dapple's planner"));
}

// [virtual worker]: how many devices of each node it has.
std::vector<std::map<std::string, int>> by_nodes(const Allocation& workers) {
  std::vector<std::map<std::string, int>> result;
  for (const auto& devices : workers) {
    std::map<std::string, int>& of = result.emplace_back();
    for (const DeviceName& device : devices) ++of[device.node];
  }
  return result;
}

// Equally many devices of each node of any two or more, each once.
TEST(SearchCompositions, AlignedOnesHaveEquallyManyDevicesOfANode) {
  const Cluster cluster = test::cluster_of(
      {{"fast", "slow", "slow"}, {"slow", "slow"}, {"fast", "fast", "fast", "fast"}}, 1);
  const std::vector<double> speed{2, 1};
  const auto all = aligned_compositions(cluster, speed, std::nullopt, 8);
  using Nodes = std::map<std::string, int>;
  std::set<std::vector<Nodes>> seen;
  for (const Allocation& workers : all) {
    const std::vector<Nodes> nodes = by_nodes(workers);
    ASSERT_GE(nodes.size(), 2U);
    ASSERT_GE(nodes.front().size(), 2U);
    for (const Nodes& of : nodes) EXPECT_EQ(of, nodes.front());
    std::set<DeviceName> used;
    for (const auto& devices : workers) used.insert(devices.begin(), devices.end());
    EXPECT_EQ(used.size(), workers.size() * workers.front().size());
    seen.insert(nodes);
  }
  EXPECT_TRUE(seen.contains(std::vector<Nodes>(3, {{"n0", 1}, {"n2", 1}})));
  EXPECT_TRUE(seen.contains(std::vector<Nodes>(2, {{"n0", 1}, {"n1", 1}, {"n2", 2}})));
  EXPECT_EQ(seen.size(), 5U);  // pairs with two or three virtual workers, and all three nodes
  for (const Allocation& workers : aligned_compositions(cluster, speed, 3, 8)) {
    EXPECT_EQ(workers.size(), 3U);
  }
  for (const Allocation& workers : aligned_compositions(cluster, speed, std::nullopt, 2)) {
    EXPECT_LE(workers.front().size(), 2U);
  }
}

TEST(SearchCompositions, OneOfEachNodeThenWithoutTheSlowest) {
  const Cluster cluster = test::cluster_of({{"fast", "slow", "slow"}, {"slow"}, {"fast"}}, 1);
  const auto all = node_compositions(cluster, std::vector<double>{2, 1}, 2);
  using Nodes = std::map<std::string, int>;
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(by_nodes(all[0]), (std::vector<Nodes>{{{"n0", 2}}, {{"n1", 1}}, {{"n2", 1}}}));
  EXPECT_EQ(by_nodes(all[1]), (std::vector<Nodes>{{{"n0", 2}}, {{"n2", 1}}}));
  EXPECT_EQ(by_nodes(all[2]), (std::vector<Nodes>{{{"n0", 2}}}));
  EXPECT_EQ(all[2][0][0], (DeviceName{"n0", 0}));  // the fastest
}

// Rules deal out what they get: with a device less the others are dealt out in other ways, too.
TEST(SearchCompositions, DealtOutWithoutEachDevice) {
  PlanRequest request = six_devices();
  request.minibatch = 32;
  request.system = "gpipe";
  request.search.systems = SystemChoice::requested;
  const std::vector<double> speed{2, 1};
  const auto keys = [&](bool without_each) {
    CutCache cuts;
    CompositionPool pool(request, speed, cuts, without_each);
    SearchSpace space(search_rows(request).front(), 32, cuts, pool.packings());
    std::set<std::string> all;
    for (Composition& one : pool.of(space))
      all.insert(composition_key(request.cluster, one.workers));
    return all;
  };
  std::set<std::string> more = keys(false);
  const std::size_t before = more.size();
  const int longest = static_cast<int>(request.profile->layers.size());
  for (const DeviceName& device : request.cluster.devices()) {
    for (Allocation& workers :
         likely_compositions(request.cluster, speed, std::nullopt, longest, 16, device)) {
      for (const auto& devices : workers)
        EXPECT_EQ(std::count(devices.begin(), devices.end(), device), 0);
      more.insert(composition_key(request.cluster, workers));
    }
  }
  EXPECT_GT(more.size(), before);
  EXPECT_EQ(keys(true), more);
}

// What people would try first is simulated whatever else promises more.
TEST(SearchCompositions, OneOfEachNodeIsAlwaysSimulated) {
  PlanRequest request = six_devices();
  request.minibatch = 32;
  request.system = "gpipe";
  request.search.systems = SystemChoice::requested;
  request.objective = PlanObjective::throughput;
  CutCache cuts;
  const std::vector<double> speed{2, 1};
  CompositionPool pool(request, speed, cuts);
  SearchSpace space(search_rows(request).front(), 32, cuts, pool.packings());
  std::vector<Composition> compositions;
  for (const Composition& composition : pool.of(space)) {
    if (composition.always) compositions.push_back(composition);
  }
  ASSERT_EQ(compositions.size(), 3U);  // of three nodes, two and one
  EXPECT_EQ(compositions.front().workers.size(), 3U);
  std::set<std::size_t> numbers;
  PlanScores scores(request.cluster, request.profile);
  scores.allow(1'000'000);
  FoundPlans found(request, scores);
  search_compositions(space, scores, found, compositions, {.simulated = 1});
  for (const ScoredPlan& plan : found.all()) numbers.insert(plan.plan.virtual_workers.size());
  EXPECT_EQ(numbers, (std::set<std::size_t>{1, 2, 3}));
}

// A plan of the first two devices; it is worth more without any one of the others.
SearchResult of_two(double worth) {
  SearchResult result;
  result.plan.virtual_workers.resize(1);
  PlanStage stage;
  stage.devices = {{"n0", 0}, {"n0", 1}};
  result.plan.virtual_workers[0].stages = {stage};
  result.plan.predicted = Prediction{};
  result.worth = worth;
  return result;
}

// What each node has left: the first letters of its kinds.
std::string left_in(const PlanRequest& request) {
  std::string left;
  for (const Node& node : request.cluster.nodes) {
    for (const int kind : node.kinds) left += at(request.cluster.kinds, kind).name.front();
    left += ' ';
  }
  return left;
}

// HetPipe's policies use every device: they are asked again where one is gone that was idle.
TEST(SearchLeavesOut, AsksPoliciesAgainWhereAnIdleDeviceIsGone) {
  const PlanRequest request = six_devices();
  SearchResult result = of_two(100);
  std::map<std::string, bool> asked;  // by what each node has left
  leave_out_what_costs(request, result, false, [&](const PlanRequest& less, bool idle) {
    EXPECT_TRUE(asked.emplace(left_in(less), idle).second);
    return of_two(1);
  });
  // Of n0 both devices are in the plan.
  const std::map<std::string, bool> expected{
      {"f fs ss ", false}, {"ff s ss ", true}, {"ff f ss ", true}, {"ff fs s ", true}};
  EXPECT_EQ(asked, expected);
}

// What is worth more is taken over, with the names that devices have in the whole pool.
TEST(SearchLeavesOut, NodesTogether) {
  const PlanRequest request = six_devices();
  SearchResult result = of_two(100);
  const auto one_node = [&](const PlanRequest& less, bool) {
    return of_two(left_in(less) == "ff   " ? 120 : 1);
  };
  leave_out_what_costs(request, result, true, one_node);
  EXPECT_EQ(result.worth, 120);
  ASSERT_FALSE(result.considered.empty());
  EXPECT_EQ(result.considered[0].origin,
            "search without slow of n1, fast of n1, slow of n2, slow of n2");
}

// Two devices of a kind that only slow down together: without one of them nothing changes.
TEST(SearchLeavesOut, TwoDevicesOfWhichOneIsNotMissed) {
  const PlanRequest request = six_devices();
  SearchResult result = of_two(100);
  double without_both = 104;
  int asked = 0;
  const auto search = [&](const PlanRequest& less, bool) {
    ++asked;
    const std::size_t left = less.cluster.nodes[0].kinds.size();
    SearchResult found = of_two(left == 0 ? without_both : left == 1 ? 100 : 1);
    for (PlanStage& stage : found.plan.virtual_workers[0].stages) {
      for (DeviceName& device : stage.devices) device.node = "n2";
    }
    return found;
  };
  leave_out_what_costs(request, result, false, search);
  EXPECT_EQ(result.worth, 104);
  ASSERT_FALSE(result.considered.empty());
  EXPECT_EQ(result.considered[0].origin, "search without fast of n0, fast of n0");

  // Where that brings nothing either, it goes no further.
  result = of_two(100);
  without_both = 100;
  asked = 0;
  leave_out_what_costs(request, result, false, search);
  EXPECT_EQ(result.worth, 100);
  EXPECT_EQ(asked, 4 + 4);
  EXPECT_TRUE(result.considered.empty());
}

// Whether the search looks further in a pool: up to fifteen devices, or up to 24 of more than four
// kinds, each counted on every node that has it.
TEST(SearchEfforts, AreLargerInMixedPools) {
  const auto starts_of = [](const std::vector<std::vector<std::string>>& nodes) {
    return search_effort(test::cluster_of(nodes, 1)).starts.of_space;
  };
  const auto of = [](int n, const std::string& kind) { return std::vector(at(n), kind); };
  const auto both = [](int n) {
    std::vector<std::string> node(at(n), "fast");
    node.push_back("slow");
    return node;
  };
  const std::size_t usual = starts_of({of(4, "a"), of(4, "b"), of(4, "c"), of(4, "d")});
  EXPECT_GT(starts_of({of(4, "a"), of(4, "b"), of(4, "c"), of(3, "d")}), usual);
  EXPECT_EQ(starts_of({both(7), both(7)}), usual);
  EXPECT_GT(starts_of({both(7), both(7), of(4, "fast")}), usual);
  EXPECT_EQ(starts_of({both(10), both(10), of(4, "fast")}), usual);
}

}  // namespace search_parts_test
}  // namespace hetpipe
