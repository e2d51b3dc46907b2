// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "../cases.h"
#include "base/text.h"

namespace hetpipe {
namespace partition_test {

using test::user_error;
using testing::HasSubstr;

TEST(Partition, FasterDeviceTakesMoreLayers) {
  const Cluster cluster = test::cluster_of({{"fast", "slow"}}, 1'000'000'000);
  const Profile profile = test::chain_of(
      9, {"fast", "slow"}, [](const auto& kind) { return kind == "fast" ? 1.0 : 2.0; });
  PartitionRequest request;
  request.devices = cluster.devices();
  request.minibatch = 32;
  const Partition found = partition(cluster, profile, request);
  std::vector<int> sizes{found.ends[0], found.ends[1] - found.ends[0]};
  const int fast = found.devices[0] == DeviceName{"n0", 0} ? sizes[0] : sizes[1];
  EXPECT_EQ(fast, 6);
}

// The user's stage waits for the weights, the owner's for the other part of the gradient.
TEST(Partition, PricesTiedWeightsBetweenStages) {
  const Cluster cluster = test::cluster_of({{"a", "a"}}, 1'000'000'000'000);
  Profile profile = test::chain_of(4, {"a"}, [](const auto&) { return 1.0; });
  PartitionRequest request;
  request.devices = cluster.devices();
  request.minibatch = 32;
  const auto cost = [&](int end) {
    return evaluate_partition(cluster, profile, request, request.devices, {end, 4});
  };
  const Partition apart = cost(2);
  profile.layers[2].shares = "layer0";
  const auto tie = [&](std::int64_t bytes) {
    profile.layers[0].parameter_bytes = profile.layers[2].parameter_bytes = bytes;
    return cluster.link(request.devices[0], request.devices[1])
        .transfer_seconds(static_cast<double>(bytes));
  };
  const double seconds = tie(100'000'000);
  const Partition tied = cost(2);
  EXPECT_DOUBLE_EQ(tied.costs[0].receive_gradients_seconds,
                   apart.costs[0].receive_gradients_seconds + seconds);
  EXPECT_DOUBLE_EQ(tied.costs[1].receive_activations_seconds,
                   apart.costs[1].receive_activations_seconds + seconds);
  EXPECT_EQ(partition(cluster, profile, request).ends, (std::vector<int>{2, 4}));
  EXPECT_GT(tie(100'000'000'000), 3);
  EXPECT_EQ(partition(cluster, profile, request).ends, (std::vector<int>{3, 4}));
}

TEST(Partition, NothingFitsNamesLedgersAndRemedies) {
  const Cluster cluster = test::cluster_of({{"small", "small"}}, 20'000);
  const Profile profile = test::chain_of(6, {"small"}, [](const auto&) { return 1.0; });
  PartitionRequest request;
  request.devices = cluster.devices();
  request.minibatch = 32;
  request.in_flight = 4;
  const std::string error = user_error([&] { partition(cluster, profile, request); });
  EXPECT_THAT(error, HasSubstr("stage 0 on n0:0 (small), layers 0 to"));
  EXPECT_THAT(error, HasSubstr("has 20.0 kB  <- too large"));
  EXPECT_THAT(error, HasSubstr("stashed versions"));
  for (const char* remedy :
       {"smaller minibatch", "fewer minibatches in flight", "more or larger devices"}) {
    EXPECT_THAT(error, HasSubstr(remedy));
  }
}

TEST(Partition, LeavesWhatPlansMayNotTake) {
  Cluster cluster = test::cluster_of({{"a"}}, 100'000);
  const Profile profile = test::chain_of(6, {"a"}, [](const auto&) { return 1.0; });
  PartitionRequest request;
  request.devices = cluster.devices();
  request.minibatch = 32;
  const std::int64_t need = partition(cluster, profile, request).ledgers.front().total();
  cluster.kinds.front().memory = need;
  EXPECT_TRUE(fits(cluster, partition(cluster, profile, request)));
  cluster.kinds.front().plan_share = 0.99;
  EXPECT_THAT(user_error([&] { partition(cluster, profile, request); }), HasSubstr("(99 % of "));
}

TEST(Partition, FewerLayersThanDevices) {
  const Cluster cluster = test::cluster_of({{"a", "a", "a"}}, 1'000'000'000);
  const Profile profile = test::chain_of(2, {"a"}, [](const auto&) { return 1.0; });
  PartitionRequest request;
  request.devices = cluster.devices();
  request.minibatch = 32;
  EXPECT_THAT(user_error([&] { partition(cluster, profile, request); }),
              HasSubstr("2 layers and the virtual worker n0:0 n0:1 n0:2 has 3 devices"));
}

// Eight unequal devices and 200 layers, as a chain, with residual edges and with a U's long skips.
// How long that takes is measured by benchmarks/planner_speed.cpp.
TEST(Partition, CutsLargeModels) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> share(0.5, 1.5);
  std::vector<std::string> kinds;
  for (int k = 0; k < 8; ++k) kinds.push_back("kind" + std::to_string(k));
  const Cluster pool = test::cluster_of(
      {{kinds[0], kinds[1]}, {kinds[2], kinds[3]}, {kinds[4], kinds[5]}, {kinds[6], kinds[7]}},
      1'000'000'000'000);
  for (const std::string shape : {"chain", "residual", "u"}) {
    Profile profile = test::chain_of(200, kinds, [&](const auto&) { return 1e-3 * share(random); });
    for (Measurement& m : profile.measurements) {
      for (double& seconds : m.forward) seconds *= share(random);
      m.output_bytes.assign(200, 2'000'000);
    }
    for (int l = 0; l < 200; ++l) {
      auto& inputs = profile.layers[static_cast<std::size_t>(l)].inputs;
      if (shape == "residual" && l % 4 == 3) inputs.push_back(l - 3);
      if (shape == "u" && l > 100 && l % 20 == 0) inputs.push_back(200 - l);
    }
    PartitionRequest request;
    request.devices = pool.devices();
    request.minibatch = 32;
    request.in_flight = 8;
    EXPECT_EQ(partition(pool, profile, request).ends.size(), 8u) << shape;
  }
}

}  // namespace partition_test
}  // namespace hetpipe
