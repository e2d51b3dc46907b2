// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../cases.h"
#include "partitioner/simulator/simulate.h"

// What plans make of links: pipelines of two stages of which a minibatch is F 1 s, a message, F 1 s
// and B 2 s, a message, B 2 s; 4000 bytes each way, 4 s of a node's interface.
namespace hetpipe {
namespace simulator_links_test {

Cluster four_devices_on_each_of(int nodes) {
  Cluster cluster = test::cluster_of(
      std::vector<std::vector<std::string>>(static_cast<std::size_t>(nodes), {"a", "a", "a", "a"}),
      1'000'000'000);
  cluster.inter_node = {1000, 0, false};
  return cluster;
}

// Virtual workers from device to device; when each has done its first minibatch.
std::vector<double> ends(const Cluster& cluster,
                         const std::vector<std::pair<DeviceName, DeviceName>>& workers) {
  Plan plan;
  plan.system = "gpipe";
  plan.model = "chain";
  for (const auto& [first, second] : workers) {
    PlanVirtualWorker worker;
    worker.stages.resize(2);
    worker.stages[0].end_layer = worker.stages[1].first_layer = 1;
    worker.stages[1].end_layer = 2;
    worker.stages[0].devices = {first};
    worker.stages[1].devices = {second};
    plan.virtual_workers.push_back(worker);
  }
  Profile profile = test::chain_of(2, {"a"}, [](const auto&) { return 1.0; });
  for (ProfileLayer& layer : profile.layers) layer.parameter_bytes = 0;  // nothing to reduce
  SimulationRequest request;
  request.minibatches = 1;
  request.keep_events = true;
  const Simulation s = simulate(plan, cluster, profile, request);
  std::vector<double> result(workers.size(), 0);
  for (const SimulatedEvent& event : s.events) {
    const SimulatedStage& row = s.stages[static_cast<std::size_t>(event.row)];
    double& end = result[static_cast<std::size_t>(row.virtual_worker)];
    end = std::max(end, event.end);
  }
  return result;
}

using Ends = std::vector<double>;

void expect_near(const Ends& actual, const Ends& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(actual[i], expected[i], 1e-9) << i;
}

TEST(Links, AloneAMessageHasTheInterface) {
  expect_near(ends(four_devices_on_each_of(2), {{{"n0", 0}, {"n1", 0}}}), {1 + 4 + 3 + 4 + 2});
}

TEST(Links, FlowsOutOfANodeShareItsInterface) {
  expect_near(ends(four_devices_on_each_of(3), {{{"n0", 0}, {"n1", 0}}, {{"n0", 1}, {"n2", 0}}}),
              {1 + 8 + 3 + 8 + 2, 1 + 8 + 3 + 8 + 2});  // gradients share the way in
}

// Both activations leave at 1, one each way; both gradients at 8.
TEST(Links, TheTwoDirectionsAreApart) {
  expect_near(ends(four_devices_on_each_of(2), {{{"n0", 0}, {"n1", 0}}, {{"n1", 1}, {"n0", 1}}}),
              {14, 14});
}

// The capped pair has 500 bytes/s of its own. Sharing n0's interface in time each goes at half of
// its speed: the fast one is there after 8 s, when 2000 bytes of the slow one are left, 4 s more.
// Backwards they do not meet: 12 to 16 and 16 to 24.
TEST(Links, ACappedPairTakesTimeNotBytes) {
  Cluster cluster = four_devices_on_each_of(3);
  cluster.between = {{{}, {"n0", "n1"}, {500, 0, false}, true}};
  expect_near(ends(cluster, {{{"n0", 0}, {"n1", 0}}, {{"n0", 1}, {"n2", 0}}}),
              {1 + 12 + 3 + 8 + 2, 1 + 8 + 3 + 4 + 2});
}

// Inside a node every pair has its own link.
TEST(Links, PairsInsideANodeDoNotShare) {
  Cluster cluster = four_devices_on_each_of(1);
  cluster.intra_node = {1000, 0.5, false};
  expect_near(ends(cluster, {{{"n0", 0}, {"n0", 1}}, {{"n0", 2}, {"n0", 3}}}), {15, 15});
}

// Three senders into one node, of which two come from one: the way in is the narrower one, a third
// each; 12 s. Backwards they leave it, 12 s again.
TEST(Links, TheNarrowerEndDecides) {
  expect_near(ends(four_devices_on_each_of(3),
                   {{{"n0", 0}, {"n2", 0}}, {{"n0", 1}, {"n2", 1}}, {{"n1", 0}, {"n2", 2}}}),
              {30, 30, 30});
}

}  // namespace simulator_links_test
}  // namespace hetpipe
