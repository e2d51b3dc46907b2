// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/likely_cuts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../cases.h"
#include "partitioner/planners/partition.h"
#include "partitioner/planners/search_packing.h"

namespace hetpipe {
namespace likely_cuts_test {

// Six layers of a second each, three runs: the cheaper cut of each run.
TEST(LikelyCuts, AreWhereLeastCrossesInRunsOfEqualComputing) {
  const std::vector<double> seconds{0, 1, 2, 3, 4, 5, 6};
  const std::vector<double> crossing{0, 9, 1, 2, 9, 3, 0};
  const std::vector<int> cuts = likely_cuts(seconds, crossing, 3);
  EXPECT_EQ(cuts.front(), 0);
  EXPECT_EQ(cuts.back(), 6);
  EXPECT_TRUE(std::is_sorted(cuts.begin(), cuts.end()));
  EXPECT_TRUE(std::find(cuts.begin(), cuts.end(), 2) != cuts.end());
  EXPECT_TRUE(std::find(cuts.begin(), cuts.end(), 4) == cuts.end());
}

Profile long_chain(std::mt19937& random, int layers) {
  Profile profile = test::chain_of(layers, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 1.7e-3; });
  for (Measurement& m : profile.measurements) {
    m.output_bytes.clear();
    for (int l = 0; l < layers; ++l) {
      m.output_bytes.push_back(std::uniform_int_distribution<int>(1, 10'000'000)(random));
    }
  }
  return profile;
}

// Near likely cuts alone, a partition of 300 layers takes a fraction of the work, and its slowest
// part is hardly slower than that of the exact one.
TEST(LikelyCuts, LoseLittle) {
  std::mt19937 random(1);
  const Cluster cluster = test::cluster_of({{"fast", "slow"}, {"slow", "fast"}}, 1'000'000'000'000);
  for (int i = 0; i < 10; ++i) {
    SCOPED_TRACE(i);
    const Profile profile = long_chain(random, 300);
    PartitionRequest request;
    request.devices = cluster.devices();
    request.minibatch = 32;
    const Partition exact = partition(cluster, profile, request);
    ASSERT_TRUE(exact.exact);
    request.likely_cuts = 48;
    request.work = request.first_work = 60'000;
    const auto likely = try_partition(cluster, profile, request);
    ASSERT_TRUE(likely);
    EXPECT_FALSE(likely->exact);
    EXPECT_EQ(likely->bound, 0);
    EXPECT_GE(likely->bottleneck, exact.bottleneck * (1 - 1e-9));
    EXPECT_LE(likely->bottleneck, exact.bottleneck * 1.03);
  }
}

// The exact partition, looked at alone, is found; where nothing of what is likely fits, another
// one.
TEST(LikelyCuts, AreAStart) {
  std::mt19937 random(2);
  const Cluster cluster = test::cluster_of({{"fast", "slow", "slow"}}, 1'000'000'000'000);
  const Profile profile = long_chain(random, 60);
  PartitionRequest request;
  request.devices = cluster.devices();
  request.minibatch = 32;
  const Partition exact = partition(cluster, profile, request);
  LikelyPartition likely;
  for (const DeviceName& device : exact.devices) likely.order.push_back(device.index);
  for (std::size_t k = 0; k + 1 < exact.ends.size(); ++k) {
    likely.ends.emplace_back(exact.ends[k], exact.ends[k]);
  }
  request.likely = likely;
  EXPECT_EQ(try_partition(cluster, profile, request)->bottleneck, exact.bottleneck);

  const std::int64_t memory = exact.ledgers[0].total() * 11 / 10;
  const Cluster tight = test::cluster_of({{"fast", "slow", "slow"}}, memory);
  request.likely->ends = {{57, 57}, {58, 58}};  // nearly all on one device
  const auto other = try_partition(tight, profile, request);
  ASSERT_TRUE(other);
  EXPECT_TRUE(fits(tight, *other));
}

// What a packing says of devices is a partition of theirs, near the best one.
TEST(LikelyCuts, OfAPackingAreAPartition) {
  std::mt19937 random(3);
  PlanRequest request;
  request.cluster = test::cluster_of({{"fast", "slow"}, {"slow", "fast"}}, 1'000'000'000'000);
  request.profile = long_chain(random, 120);
  const Packing packing(request, 32, 1);
  PartitionRequest part;
  part.devices = request.cluster.devices();
  part.minibatch = 32;
  const Partition exact = partition(request.cluster, request.profile, part);
  part.likely = packing.partition(part.devices);
  ASSERT_TRUE(part.likely);
  ASSERT_EQ(part.likely->order.size(), 4u);
  const auto found = try_partition(request.cluster, request.profile, part);
  ASSERT_TRUE(found);
  EXPECT_LE(found->bottleneck, exact.bottleneck * 1.05);
  // Its throughput is that of the slowest virtual worker's slowest stage, on a few cuts.
  const double most = 32 / exact.bottleneck;
  const auto packed = packing.throughput({part.devices});
  ASSERT_TRUE(packed);
  EXPECT_LE(*packed, most * (1 + 1e-9));
  EXPECT_GE(*packed, most * 0.9);
}

}  // namespace likely_cuts_test
}  // namespace hetpipe
