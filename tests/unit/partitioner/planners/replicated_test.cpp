// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/replicated.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>

#include "../cases.h"

namespace hetpipe {
namespace replicated_test {

using testing::ElementsAre;

TEST(ProportionalShares, WholeSamplesInProportion) {
  EXPECT_THAT(proportional_shares(32, std::vector{2.0, 1.0}), ElementsAre(21, 11));
  EXPECT_THAT(proportional_shares(32, std::vector{5.0, 3.0}), ElementsAre(20, 12));
  EXPECT_THAT(proportional_shares(10, std::vector{1.0, 1.0, 1.0}), ElementsAre(4, 3, 3));
  EXPECT_TRUE(proportional_shares(32, std::vector{1.0, 1.0}).empty());
  // Everybody works.
  EXPECT_THAT(proportional_shares(4, std::vector{100.0, 1.0, 1.0}), ElementsAre(2, 1, 1));
}

// The slowest replica's samples / speed over every split.
double least_time(int samples, std::span<const double> speeds) {
  if (speeds.size() == 1) return samples / speeds[0];
  double least = 1e300;
  for (int mine = 1; mine <= samples - static_cast<int>(speeds.size()) + 1; ++mine) {
    least =
        std::min(least, std::max(mine / speeds[0], least_time(samples - mine, speeds.subspan(1))));
  }
  return least;
}

TEST(ProportionalShares, NoSplitIsFaster) {
  std::mt19937 random(17);
  std::uniform_real_distribution<double> some(0.05, 1);
  for (int round = 0; round < 2000; ++round) {
    std::vector<double> speeds(1 + random() % 4);
    for (double& speed : speeds) speed = round % 2 == 0 ? some(random) : 1.0 + random() % 4;
    const int samples = static_cast<int>(speeds.size() + random() % 16);
    std::vector<int> shares = proportional_shares(samples, speeds);
    if (shares.empty()) shares.assign(speeds.size(), samples / static_cast<int>(speeds.size()));
    int sum = 0;
    double time = 0;
    for (std::size_t i = 0; i < speeds.size(); ++i) {
      ASSERT_GE(shares[i], 1);
      sum += shares[i];
      time = std::max(time, shares[i] / speeds[i]);
    }
    ASSERT_EQ(sum, samples);
    ASSERT_NEAR(time, least_time(samples, speeds), 1e-9 * time) << "round " << round;
  }
}

TEST(PlacedLayers, InputsGoWithTheFirstStage) {
  Profile profile = test::chain_of(4, {"a"}, [](const std::string&) { return 1.0; });
  profile.layers[0].name = "node1 Input0";
  const PlacedLayers placed = placed_layers(profile);
  EXPECT_THAT(placed.layers, ElementsAre(1, 2, 3));
  EXPECT_TRUE(placed.inputs[0].empty());
  EXPECT_THAT(placed.inputs[1], ElementsAre(0));
  EXPECT_EQ(placed.end_layer(1), 2);
  EXPECT_EQ(placed.end_layer(3), 4);
  profile.layers[0].name = "InputProjection";
  EXPECT_EQ(placed_layers(profile).size(), 4);
}

TEST(SlowestLinks, RulesThatLower) {
  Cluster cluster = test::cluster_of({{"a", "b"}, {"a"}}, 1000);
  cluster.between.push_back({{"a", "b"}, {}, {0.5e9, 1e-3, false}, true});
  const SlowestLinks links = slowest_links(cluster);
  EXPECT_EQ(links.within.bandwidth, 0.5e9);
  EXPECT_EQ(links.across.bandwidth, 0.5e9);
  EXPECT_EQ(links.across.latency, 1e-3);
  Cluster fast = test::cluster_of({{"a", "a"}, {"a"}}, 1000);
  fast.between.push_back({{}, {"n0", "n1"}, {50e9, 0, false}, true});
  EXPECT_EQ(slowest_links(fast).across.bandwidth, 1e9);
}

}  // namespace replicated_test
}  // namespace hetpipe
