// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"

namespace hetpipe {
namespace {

using testing::HasSubstr;

using Groups = std::vector<std::vector<DeviceName>>;

// All members arrive at once; when the all-reduce is over.
template <class AddRound>
double when_over(const Cluster& cluster, const Groups& groups, AddRound add_round) {
  EngineJob job;
  Network network(cluster, job);
  std::vector<ReduceRound> rounds;
  for (const auto& members : groups) {
    rounds.push_back(add_round(network, members));
    for (std::size_t m = 0; m < members.size(); ++m) {
      job.arrive(rounds.back().join);
      job.end_process();
    }
  }
  drop_unshared_interfaces(job);
  Engine engine;
  const EngineTimes& times = engine.play(job);
  double last = 0;
  for (const ReduceRound& round : rounds) {
    last = std::max(last, times.fired[static_cast<std::size_t>(round.done)]);
  }
  return last;
}

double all_reduced(const Cluster& cluster, const Groups& rings, double bytes) {
  return when_over(cluster, rings,
                   [bytes](Network& network, const std::vector<DeviceName>& members) {
                     return Ring(network, members).add_round(network.job(), bytes);
                   });
}

double chained(const Cluster& cluster, const Groups& chains, double bytes, double piece) {
  return when_over(cluster, chains,
                   [bytes, piece](Network& network, const std::vector<DeviceName>& members) {
                     return Chain(network, members).add_round(network.job(), bytes, piece);
                   });
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

// Two: all bytes go up and come down at once, one piece later. Three: the one in the middle sends
// up and down through one interface.
TEST(Chain, IsAPipelineBothWays) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {"a"}}, 1);
  c.inter_node = {100, 0.5, false};
  const DeviceName a{"n0", 0}, b{"n1", 0}, d{"n2", 0};
  EXPECT_NEAR(chained(c, {{a, b}}, 1000, 10), 10 + 0.1 + 2 * 0.5, 1e-12);
  EXPECT_NEAR(chained(c, {{a, b}}, 5, 10), 0.05 + 0.05 + 2 * 0.5, 1e-12) << "one small piece";
  EXPECT_NEAR(chained(c, {{a, b, d}}, 1000, 10), 2 * (10 + 3 * 0.1) + 4 * 0.5, 1e-12);
}

// Inside a node every pair has its own link: the length costs the filling alone.
TEST(Chain, DoesNotGrowWithItsLength) {
  Cluster c = test::cluster_of({{"a", "a", "a", "a", "a"}}, 1);
  c.intra_node = {100, 0, false};
  std::vector<DeviceName> members;
  for (int d = 0; d < 5; ++d) members.push_back({"n0", d});
  EXPECT_NEAR(chained(c, {members}, 1000, 1), 10 + 7 * 0.01, 1e-12);
}

TEST(Chain, TwoShareTheInterfaces) {
  Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1);
  c.inter_node = {100, 0, false};
  EXPECT_NEAR(chained(c, {{{"n0", 0}, {"n1", 0}}, {{"n0", 1}, {"n1", 1}}}, 1000, 10), 2 * 10.1,
              1e-12);
}

TEST(Chain, OfOneHasNothingToDo) {
  Cluster c = test::cluster_of({{"a"}}, 1);
  EngineJob job;
  Network network(c, job);
  const DeviceName alone{"n0", 0};
  EXPECT_EQ(Chain(network, {&alone, 1}).add_round(job, 1, 1).join, -1);
}

}  // namespace
}  // namespace hetpipe
