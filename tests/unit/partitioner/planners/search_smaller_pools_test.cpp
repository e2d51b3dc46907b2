// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_smaller_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "../cases.h"
#include "base/index.h"

namespace hetpipe {
namespace search_smaller_pools_test {

std::vector<SmallerPool> pools_of(const Cluster& cluster, bool groups,
                                  const std::set<DeviceName>& used = {}) {
  std::set<PoolShape> asked;
  return smaller_pools(cluster, used, groups, asked);
}

// What each node has left: its kinds' names.
std::vector<std::string> left_in(const std::vector<SmallerPool>& pools) {
  std::vector<std::string> result;
  for (const SmallerPool& pool : pools) {
    std::string& left = result.emplace_back();
    for (const Node& node : pool.cluster.nodes) {
      for (const int kind : node.kinds) left += at(pool.cluster.kinds, kind).name;
      left += '|';
    }
  }
  return result;
}

TEST(SmallerPools, OneDeviceOfEachKindAndNode) {
  const Cluster cluster = test::cluster_of({{"a", "a"}, {"a", "b"}}, 1'000'000'000);
  EXPECT_THAT(left_in(pools_of(cluster, false)),
              testing::UnorderedElementsAre("a|ab|", "aa|a|", "aa|b|"));
}

// Also all of a kind on a node or anywhere, nodes, and two of a kind: "|ab|" is both of the first
// node.
TEST(SmallerPools, Groups) {
  const Cluster cluster = test::cluster_of({{"a", "a", "a"}, {"a", "b"}}, 1'000'000'000);
  EXPECT_THAT(
      left_in(pools_of(cluster, true)),
      testing::UnorderedElementsAre("aa|ab|", "aaa|a|", "aaa|b|", "|ab|", "|b|", "aaa||", "a|ab|"));
}

// Sixteen nodes of one device: without any one of them, and without any two.
TEST(SmallerPools, AlikeOnesOnce) {
  const std::vector<std::vector<std::string>> nodes(16, {"a"});
  Cluster cluster = test::cluster_of(nodes, 1'000'000'000);
  EXPECT_EQ(pools_of(cluster, false).size(), 1U);
  const auto groups = pools_of(cluster, true);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[1].gone.size(), 2U);

  // Links that name nodes tell them apart.
  cluster.between.push_back({{}, {"n0", "n1"}, cluster.inter_node});
  EXPECT_EQ(pools_of(cluster, false).size(), 16U);
}

// What a larger pool was asked without two devices need not be asked again of a smaller one.
TEST(SmallerPools, WhatWasAskedBefore) {
  const Cluster cluster = test::cluster_of({{"a", "a", "b"}}, 1'000'000'000);
  std::set<PoolShape> asked;
  EXPECT_THAT(left_in(smaller_pools(cluster, {}, true, asked)),
              testing::UnorderedElementsAre("ab|", "aa|", "b|"));
  const Cluster less = without_device(cluster, {"n0", 0});
  EXPECT_THAT(left_in(smaller_pools(less, {}, true, asked)), testing::UnorderedElementsAre("a|"));
}

// A device that is idle is left out before one like it that is not.
TEST(SmallerPools, IdleDevicesFirst) {
  const Cluster cluster = test::cluster_of({{"a", "a"}, {"a", "a"}}, 1'000'000'000);
  const std::set<DeviceName> used{{"n0", 0}, {"n1", 0}, {"n1", 1}};
  const auto pools = pools_of(cluster, false, used);
  ASSERT_EQ(pools.size(), 1U);
  EXPECT_EQ(pools[0].gone, (std::vector<DeviceName>{{"n0", 1}}));
}

// Taken out one after the other, devices keep their names until it is their turn.
TEST(SmallerPools, LargerIndicesFirst) {
  const Cluster cluster = test::cluster_of({{"a", "b", "a"}, {"b"}}, 1'000'000'000);
  for (const SmallerPool& pool : pools_of(cluster, true)) {
    for (std::size_t i = 1; i < pool.gone.size(); ++i) {
      if (pool.gone[i].node != pool.gone[i - 1].node) continue;
      EXPECT_LT(pool.gone[i].index, pool.gone[i - 1].index);
    }
    Cluster less = cluster;
    for (const DeviceName& device : pool.gone) less = without_device(less, device);
    EXPECT_EQ(less, pool.cluster);
  }
}

}  // namespace search_smaller_pools_test
}  // namespace hetpipe
