// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"

namespace hetpipe {
namespace {

using testing::HasSubstr;

// Each member arrives at the time given; when the all-reduce is over.
double all_reduced(const Cluster& cluster, const std::vector<std::vector<DeviceName>>& rings,
                   double bytes) {
  EngineJob job;
  Network network(cluster, job);
  std::vector<Ring::Round> rounds;
  for (const auto& members : rings) {
    rounds.push_back(Ring(network, members).add_round(job, bytes));
    for (std::size_t m = 0; m < members.size(); ++m) {
      job.arrive(rounds.back().join);
      job.end_process();
    }
  }
  drop_unshared_interfaces(job);
  Engine engine;
  const EngineTimes& times = engine.play(job);
  double last = 0;
  for (const Ring::Round& round : rounds) {
    last = std::max(last, times.fired[static_cast<std::size_t>(round.done)]);
  }
  return last;
}

TEST(Ring, TakesItsSlowestLink) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {"b"}, {"a"}}, 1);
  c.inter_node = {100, 0.5, false};
  c.between = {{{"a", "b"}, {}, {10, 0.5, false}, true}};
  // Three equal links: 2 * 2 / 3 * 30 bytes, four steps of latency.
  EXPECT_NEAR(all_reduced(c, {{{"n0", 0}, {"n1", 0}, {"n3", 0}}}, 30), 40 / 100.0 + 4 * 0.5, 1e-12);
  EXPECT_NEAR(all_reduced(c, {{{"n0", 0}, {"n1", 0}, {"n2", 0}}}, 30), 40 / 10.0 + 4 * 0.5, 1e-12);
}

TEST(Ring, LeavesEachNodeOnce) {
  Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1);
  c.intra_node = {1e30, 0, false};
  c.inter_node = {100, 0, false};
  // Listed in turns; one flow leaves each node, 2 * 3 / 4 * 40 bytes.
  EXPECT_NEAR(all_reduced(c, {{{"n0", 0}, {"n1", 0}, {"n0", 1}, {"n1", 1}}}, 40), 0.6, 1e-12);
}

TEST(Ring, TwoRingsShareTheInterfaces) {
  Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1);
  c.inter_node = {100, 0, false};
  EXPECT_NEAR(all_reduced(c, {{{"n0", 0}, {"n1", 0}}}, 40), 0.4, 1e-12);
  EXPECT_NEAR(all_reduced(c, {{{"n0", 0}, {"n1", 0}}, {{"n0", 1}, {"n1", 1}}}, 40), 0.8, 1e-12);
}

TEST(Network, PairsOfANodeDoNotShare) {
  Cluster c = test::cluster_of({{"a", "a", "a", "a"}}, 1);
  c.intra_node = {100, 0, false};
  EXPECT_NEAR(all_reduced(c, {{{"n0", 0}, {"n0", 1}}, {{"n0", 2}, {"n0", 3}}}, 40), 0.4, 1e-12);
  // The same pair twice does.
  EXPECT_NEAR(all_reduced(c, {{{"n0", 0}, {"n0", 1}}, {{"n0", 0}, {"n0", 1}}}, 40), 0.8, 1e-12);
}

TEST(Network, NamesTheLinkThatIsMissing) {
  Cluster c = test::cluster_of({{"a"}, {"a"}}, 1);
  c.inter_node = {};
  EngineJob job;
  Network network(c, job);
  EXPECT_THAT(test::user_error([&] {
                network.add_route({"n0", 0}, {"n1", 0});
              }),
              HasSubstr("no link between nodes 'n0' and 'n1'"));
}

}  // namespace
}  // namespace hetpipe
