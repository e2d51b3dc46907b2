// SPDX-License-Identifier: Apache-2.0
#include "launch/allocation/allocation.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/unit/base/travels.h"

namespace hetpipe {
namespace allocation_allocation_test {

constexpr const char* kPool = R"(format = 1
[device.titan-v]
memory = 12_000_000_000
[device.a100]
memory = 40_000_000_000
[[node]]
name = "n[0-1].lab"
devices = ["titan-v"]
[[node]]
name = "n2"
devices = ["a100", "titan-v", "a100"]
[[node]]
name = "n3"
devices = []
[link.intra_node]
bandwidth = 12e9
[link.inter_node]
bandwidth = 6e9
[[link.between]]
kinds = ["titan-v", "a100"]
bandwidth = 1e9
[[link.between]]
nodes = ["n2", "n3"]
bandwidth = 2e9
)";

Cluster pool() { return parse_cluster(kPool, "pool.toml"); }

AllocatedNode node(std::string name, std::vector<std::string> gpus = {}, bool answers = true) {
  return {.name = std::move(name), .gpus = std::move(gpus), .features = {}, .answers = answers};
}

Allocation slurm(std::vector<AllocatedNode> nodes) {
  return {.of = "Slurm job 17", .gpus_known = true, .nodes = std::move(nodes)};
}

std::vector<std::string> kinds_of(const Cluster& cluster, const std::string& name) {
  std::vector<std::string> kinds;
  for (const int kind :
       cluster.nodes[static_cast<std::size_t>(cluster.find_node(name)->value)].kinds) {
    kinds.push_back(cluster.kinds[static_cast<std::size_t>(kind)].name);
  }
  return kinds;
}

using Names = std::vector<std::string>;

TEST(Allocation, TravelsAsItIs) {
  test::expect_travels(slurm({node("n0", {"titanv", ""}), node("n3", {}, false)}));
  test::expect_all_travels(test::filled<Allocation>());
  test::expect_all_travels(test::filled<AllocatedNode>());
}

TEST(MeansKind, HoweverItIsWritten) {
  EXPECT_TRUE(means_kind("titanv", "titan-v"));
  EXPECT_TRUE(means_kind("TITAN_V", "titan-v"));
  EXPECT_TRUE(means_kind("mine", "mine"));
  EXPECT_FALSE(means_kind("titanv", "titan-x"));
  EXPECT_FALSE(means_kind("gpu", "a100"));
}

TEST(ClusterOf, TheDevicesThatTheJobWasGiven) {
  const Cluster cluster = cluster_of(
      slurm({node("n1", {"titanv"}), node("n2", {"titanv", "a100"}), node("n3")}), pool(), "p");
  ASSERT_EQ(cluster.nodes.size(), 3U);
  EXPECT_EQ(cluster.nodes[0].name, "n1.lab");
  EXPECT_EQ(kinds_of(cluster, "n2"), Names({"titan-v", "a100"}));
  EXPECT_TRUE(kinds_of(cluster, "n3").empty());
  EXPECT_EQ(cluster.between.size(), 2U);
  EXPECT_EQ(cluster.inter_node.bandwidth, 6e9);
}

TEST(ClusterOf, TypesThatAreNotSaidAreTheFilesInItsOrder) {
  const Cluster cluster = cluster_of(slurm({node("n2", {"", ""})}), pool(), "p");
  EXPECT_EQ(kinds_of(cluster, "n2"), Names({"a100", "titan-v"}));
}

TEST(ClusterOf, ASchedulerThatKnowsNoGpusLeavesThemToTheFile) {
  const Cluster cluster = cluster_of(slurm({node("n0"), node("n2")}), pool(), "p");
  EXPECT_EQ(kinds_of(cluster, "n0.lab"), Names({"titan-v"}));
  EXPECT_EQ(kinds_of(cluster, "n2").size(), 3U);
}

TEST(ClusterOf, ANodeWithoutAGpuForThisJobIsAServers) {
  const Cluster cluster = cluster_of(slurm({node("n0", {"titanv"}), node("n2")}), pool(), "p");
  EXPECT_TRUE(kinds_of(cluster, "n2").empty());
}

TEST(ClusterOf, NodesThatAreDownAndRulesOfNodesThatAreNotThereAreLeftOut) {
  const Cluster cluster =
      cluster_of(slurm({node("n0", {"titanv"}), node("n2", {"a100"}, false)}), pool(), "p");
  ASSERT_EQ(cluster.nodes.size(), 1U);
  ASSERT_EQ(cluster.kinds.size(), 1U);
  EXPECT_EQ(cluster.kinds[0].name, "titan-v");
  EXPECT_TRUE(cluster.between.empty());
  EXPECT_EQ(parse_cluster(to_toml(cluster), "again"), cluster);
}

TEST(ClusterOf, ANewNodesGpusAreOfThePoolsKindsOrTheCatalogues) {
  const Cluster cluster = cluster_of(slurm({node("x9", {"titanv", "rtx3090"})}), pool(), "p");
  EXPECT_EQ(kinds_of(cluster, "x9"), Names({"titan-v", "rtx-3090"}));
  EXPECT_GT(cluster.kinds[1].peak_flops, 1e13);
}

TEST(ClusterOf, AFeatureOfTheNodeSaysWhatATypeDoesNot) {
  AllocatedNode plain = node("x9", {"", ""});
  plain.features = {"rack7", "a100"};
  const Cluster cluster = cluster_of(slurm({plain}), pool(), "p");
  EXPECT_EQ(kinds_of(cluster, "x9"), Names({"a100", "a100"}));
}

TEST(ClusterOf, AKindThatNobodyKnowsIsAMistake) {
  try {
    cluster_of(slurm({node("x9", {"warp9"}), node("x8", {""})}), pool(), "pool.toml");
    FAIL() << "a kind out of nowhere";
  } catch (const UserError& error) {
    ASSERT_EQ(error.problems().size(), 2U);
    EXPECT_EQ(error.problems()[0].where, "pool.toml");
    EXPECT_NE(error.problems()[0].text.find("'warp9'"), std::string::npos);
  }
}

TEST(RanksOfNodes, OneForEachDeviceAndOneForAServer) {
  const std::vector<RanksOfNode> ranks = ranks_of_nodes(pool());
  ASSERT_EQ(ranks.size(), 4U);
  EXPECT_EQ(ranks[0].ranks, 1);
  EXPECT_EQ(ranks[2].node, "n2");
  EXPECT_EQ(ranks[2].ranks, 3);
  EXPECT_EQ(ranks[3].node, "n3");
  EXPECT_EQ(ranks[3].ranks, 1);
  EXPECT_EQ(ranks[3].devices, 0);
}

TEST(SeatsOf, DevicesAndRanksMeet) {
  const Seats seats = seats_of(pool(), {"n0", "n2.lab", "n2.lab", "n3", "n1", "n1"});
  ASSERT_EQ(seats.cluster.nodes.size(), 4U);
  EXPECT_EQ(kinds_of(seats.cluster, "n2"), Names({"a100", "titan-v"}));  // two ranks for three
  EXPECT_EQ(seats.free, Names({"n1.lab", "n3"}));
  ASSERT_EQ(seats.notes.size(), 1U);
  EXPECT_NE(seats.notes[0].find("n2 has 3 devices and 2 ranks"), std::string::npos);
  const std::vector<std::string> devices{"n0.lab:0", "n2:0", "n2:1", "-", "n1.lab:0", "-"};
  ASSERT_EQ(seats.device_of_rank.size(), devices.size());
  for (std::size_t r = 0; r < devices.size(); ++r) {
    const std::optional<DeviceName>& device = seats.device_of_rank[r];
    EXPECT_EQ(device ? to_string(*device) : "-", devices[r]) << "rank " << r;
  }
}

TEST(SeatsOf, NodesWithoutRanksAreLeftOut) {
  const Seats seats = seats_of(pool(), {"n0"});
  ASSERT_EQ(seats.cluster.nodes.size(), 1U);
  EXPECT_EQ(seats.notes.size(), 3U);
}

}  // namespace allocation_allocation_test
}  // namespace hetpipe
