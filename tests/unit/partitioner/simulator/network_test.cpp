// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"

namespace hetpipe {
namespace network_test {

using testing::HasSubstr;

using Groups = std::vector<std::vector<DeviceName>>;

// Of all groups at once, of which all members arrive at once; when it is over.
double all_reduced(const Cluster& cluster, const Groups& rings, double bytes) {
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

// When every member of every chain has the sums of round after round; [group][member] computes
// `late` before it joins, and continues to the next round.
struct Chained {
  ReducedBytes bytes;
  std::vector<std::vector<double>> late{};
  int rounds = 1;
  bool at_once = false;  // all rounds joined before the first is waited for
};
std::vector<std::vector<double>> when_chained(const Cluster& cluster, const Groups& chains,
                                              const Chained& what) {
  EngineJob job;
  Network network(cluster, job);
  std::vector<std::pair<std::size_t, std::int64_t>> last_op;  // of each process: its group, its end
  for (std::size_t g = 0; g < chains.size(); ++g) {
    const Chain chain(network, chains[g]);
    std::vector<Chain::Round> rounds;
    for (int r = 0; r < what.rounds; ++r) {
      rounds.push_back(chain.add_round(job, what.bytes, r == 0 ? Chain::Round{} : rounds.back()));
    }
    for (std::size_t m = 0; m < chains[g].size(); ++m) {
      for (const Chain::Round& round : rounds) {
        if (!what.late.empty()) job.compute(what.late[g][m]);
        job.arrive(round.ready(static_cast<int>(m)));
        if (!what.at_once) job.wait(round.done(static_cast<int>(m)));
      }
      job.wait(rounds.back().done(static_cast<int>(m)));
      job.end_process();
      last_op.emplace_back(g, job.end.back() - 1);
    }
  }
  drop_unshared_interfaces(job);
  Engine engine;
  const EngineTimes& times = engine.play(job);
  std::vector<std::vector<double>> ends(chains.size());
  for (const auto& [group, op] : last_op) {
    ends[group].push_back(times.end[static_cast<std::size_t>(op)]);
  }
  return ends;
}

double chained(const Cluster& cluster, const Groups& chains, const Chained& what) {
  double last = 0;
  for (const auto& group : when_chained(cluster, chains, what)) {
    last = std::max(last, *std::max_element(group.begin(), group.end()));
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

// A server's messages over emulated links: to two devices of another node one after the other, to
// two of its own over a link each.
TEST(Network, AServersQueueIsBetweenNodes) {
  Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1);
  c.inter_node = c.intra_node = {100, 0, true};
  for (const auto& [node, second] : {std::pair{"n1", 0.8}, std::pair{"n0", 0.4}}) {
    EngineJob job;
    Network network(c, job, Sharing::queued);
    for (int d = 0; d < 2; ++d) {
      job.send(
          job.add_transfer(network.add_server_route({"n0", -1}, {node, d}), 40, job.add_signal()));
    }
    job.end_process();
    drop_unshared_interfaces(job);
    Engine engine;
    const EngineTimes& times = engine.play(job);
    EXPECT_NEAR(times.fired[0], 0.4, 1e-12) << node;
    EXPECT_NEAR(times.fired[1], second, 1e-12) << node;
  }
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
// up and down through one interface, the last piece alone.
TEST(Chain, IsAPipelineBothWays) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {"a"}}, 1);
  c.inter_node = {100, 0.5, false};
  const DeviceName a{"n0", 0}, b{"n1", 0}, d{"n2", 0};
  EXPECT_NEAR(chained(c, {{a, b}}, {{1000, 10}}), 10 + 0.1 + 2 * 0.5, 1e-12);
  EXPECT_NEAR(chained(c, {{a, b}}, {{5, 10}}), 0.05 + 0.05 + 2 * 0.5, 1e-12) << "one small piece";
  EXPECT_NEAR(chained(c, {{a, b, d}}, {{1000, 10}}), 2 * 9.9 + 4 * 0.1 + 4 * 0.5, 1e-12);
}

// Inside a node every pair has its own link: the length costs the filling alone.
TEST(Chain, DoesNotGrowWithItsLength) {
  Cluster c = test::cluster_of({{"a", "a", "a", "a", "a"}}, 1);
  c.intra_node = {100, 0, false};
  std::vector<DeviceName> members;
  for (int d = 0; d < 5; ++d) members.push_back({"n0", d});
  EXPECT_NEAR(chained(c, {members}, {{1000, 1}}), 10 + 7 * 0.01, 1e-12);
}

TEST(Chain, TwoShareTheInterfaces) {
  Cluster c = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1);
  c.inter_node = {100, 0, false};
  EXPECT_NEAR(chained(c, {{{"n0", 0}, {"n1", 0}}, {{"n0", 1}, {"n1", 1}}}, {{1000, 10}}), 2 * 10.1,
              1e-12);
}

// The last piece comes down member by member; the upper ones have it earlier.
TEST(Chain, UpperMembersAreDoneEarlier) {
  Cluster c = test::cluster_of({{"a", "a", "a"}}, 1);
  c.intra_node = {100, 0.5, false};
  const auto ends = when_chained(c, {{{"n0", 0}, {"n0", 1}, {"n0", 2}}}, {{1000, 10}});
  EXPECT_NEAR(ends[0][2], 10 + 0.1 + 2 * 0.5, 1e-12);
  EXPECT_NEAR(ends[0][1], 10 + 0.2 + 3 * 0.5, 1e-12);
  EXPECT_NEAR(ends[0][0], 10 + 0.3 + 4 * 0.5, 1e-12);
}

// What waits for a late member is what goes through it: late at the lower end, everything; at the
// upper end, the last hop up and all that comes down.
TEST(Chain, WaitsForItsLateMembers) {
  Cluster c = test::cluster_of({{"a"}, {"a"}, {"a"}, {"a"}}, 1);
  c.inter_node = {100, 0, false};
  c.intra_node = {100, 0, false};
  const Groups nodes = {{{"n0", 0}, {"n1", 0}, {"n2", 0}, {"n3", 0}}};
  EXPECT_NEAR(chained(c, nodes, {{1000, 10}}), 2 * 9.9 + 6 * 0.1, 1e-12);
  EXPECT_NEAR(chained(c, nodes, {{1000, 10}, {{50, 0, 0, 0}}}), 50 + 2 * 9.9 + 6 * 0.1, 1e-12);
  // The third node's interface still carries both ways.
  EXPECT_NEAR(chained(c, nodes, {{1000, 10}, {{0, 0, 0, 50}}}), 50 + 2 * 9.9 + 4 * 0.1, 1e-12);
  // Inside the third node the late one has a link of its own.
  const Groups pair = {{{"n0", 0}, {"n1", 0}, {"n2", 0}, {"n2", 1}}};
  EXPECT_NEAR(chained(c, pair, {{1000, 10}, {{0, 0, 0, 50}}}), 50 + 9.9 + 4 * 0.1, 1e-12);
}

// The late one at the upper end gets what is left of the last hop up; what was sent ahead is there.
TEST(Chain, SendsAheadToThoseWhoAreLate) {
  Cluster c = test::cluster_of({{"a", "a"}}, 1);
  c.intra_node = {100, 0, false};
  const Groups pair = {{{"n0", 0}, {"n0", 1}}};
  const auto ends = when_chained(c, pair, {{1000, 10, 400}, {{0, 50}}});
  EXPECT_NEAR(ends[0][1], 50 + 5.9 + 0.1, 1e-12);
  EXPECT_NEAR(ends[0][0], 50 + 9.9 + 0.1, 1e-12);
  EXPECT_NEAR(chained(c, pair, {{1000, 10, 4000}, {{0, 50}}}), 50 + 10, 1e-12);
  EXPECT_NEAR(chained(c, pair, {{1000, 10, 400}, {{50, 0}}}), 50 + 10.1, 1e-12);
}

// Each after the sum before, or all joined at once: messages stand in line then.
TEST(Chain, RoundsFollowOneAnother) {
  Cluster c = test::cluster_of({{"a", "a", "a"}}, 1);
  c.intra_node = {100, 0, false};
  const Groups all = {{{"n0", 0}, {"n0", 1}, {"n0", 2}}};
  EXPECT_NEAR(chained(c, all, {{1000, 10}, {}, 3}), 3 * (10 + 0.3), 1e-12);
  const double in_line = chained(c, all, {{1000, 10}, {}, 3, true});
  EXPECT_GE(in_line, 30.3 - 1e-12);
  EXPECT_LE(in_line, 30.6);
}

TEST(Chain, OfOneHasNothingToDo) {
  Cluster c = test::cluster_of({{"a"}}, 1);
  EngineJob job;
  Network network(c, job);
  const DeviceName alone{"n0", 0};
  EXPECT_EQ(Chain(network, {&alone, 1}).add_round(job, {1, 1}, {}).first, -1);
}

}  // namespace network_test
}  // namespace hetpipe
