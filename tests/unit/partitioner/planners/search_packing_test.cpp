// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "../cases.h"
#include "partitioner/planners/partition.h"

namespace hetpipe {
namespace search_packing_test {

// Twelve layers of 3 ms per minibatch on a fast device; messages take next to nothing.
PlanRequest pool_of(const std::vector<std::vector<std::string>>& nodes,
                    const std::map<std::string, double>& slower) {
  PlanRequest request;
  request.cluster = test::cluster_of(nodes, 1'000'000'000'000);
  std::vector<std::string> kinds;
  for (const DeviceKind& kind : request.cluster.kinds) kinds.push_back(kind.name);
  request.profile =
      test::chain_of(12, kinds, [&](const std::string& kind) { return 1e-3 * slower.at(kind); });
  request.cluster.intra_node = request.cluster.inter_node = {1e15, 0, false};
  request.minibatch = 32;
  return request;
}

std::set<std::string> kinds_of(const PlanRequest& request, const Allocation& composition) {
  std::set<std::string> kinds;
  for (const auto& devices : composition) {
    for (const DeviceName& device : devices) kinds.insert(request.cluster.kind_of(device).name);
  }
  return kinds;
}

double slowest_stage(const PlanRequest& request, const Allocation& composition) {
  double slowest = 0;
  for (const auto& devices : composition) {
    PartitionRequest part;
    part.devices = devices;
    part.minibatch = *request.minibatch;
    slowest = std::max(slowest, partition(request.cluster, request.profile, part).bottleneck);
  }
  return slowest;
}

// Two fast devices and one that is eleven times as slow: a stage of one layer on it takes nearly
// as long as the whole model on a fast one.
TEST(Packing, LeavesOutWhatOnlySlowsDown) {
  const PlanRequest request = pool_of({{"fast", "fast", "snail"}}, {{"fast", 1}, {"snail", 11}});
  const Packing packing(request, 32, 1);
  const auto one = packing.compositions(1, 12);
  ASSERT_FALSE(one.empty());
  EXPECT_EQ(kinds_of(request, one.front()), std::set<std::string>{"fast"});
  const auto two = packing.compositions(2, 12);
  ASSERT_FALSE(two.empty());
  EXPECT_EQ(kinds_of(request, two.front()), std::set<std::string>{"fast"});
}

// Of all ways to form two virtual workers of six devices, none has a faster slowest stage.
TEST(Packing, FormsTheFastestOfAllCompositions) {
  const PlanRequest request =
      pool_of({{"fast", "slow", "slow"}, {"fast", "slow", "slow"}}, {{"fast", 1}, {"slow", 2}});
  const std::vector<DeviceName> devices = request.cluster.devices();
  double least = std::numeric_limits<double>::infinity();
  int ways = 0;
  for (int code = 0; code < 729; ++code) {  // each idle, in the first or in the second
    Allocation composition(2);
    for (int d = 0, rest = code; d < 6; ++d, rest /= 3) {
      if (rest % 3 > 0) {
        composition[static_cast<std::size_t>(rest % 3 - 1)].push_back(
            devices[static_cast<std::size_t>(d)]);
      }
    }
    if (composition[0].empty() || composition[1].empty()) continue;
    least = std::min(least, slowest_stage(request, composition));
    ++ways;
  }
  ASSERT_EQ(ways, 602);
  const Packing packing(request, 32, 1);
  const auto formed = packing.compositions(2, 12);
  ASSERT_FALSE(formed.empty());
  double best = std::numeric_limits<double>::infinity();
  for (const Allocation& composition : formed) {
    ASSERT_EQ(composition.size(), 2U);
    best = std::min(best, slowest_stage(request, composition));
  }
  EXPECT_NEAR(best, least, 1e-9);
}

// No device is in two virtual workers, and none of these is longer than asked for.
TEST(Packing, KeepsToThePoolAndToTheLength) {
  const PlanRequest request = pool_of({{"a", "a", "b"}, {"b", "b", "a"}}, {{"a", 1}, {"b", 1.5}});
  const Packing packing(request, 32, 1);
  int formed = 0;
  for (const Allocation& composition : packing.compositions(std::nullopt, 2)) {
    std::set<DeviceName> seen;
    for (const auto& devices : composition) {
      EXPECT_LE(devices.size(), 2U);
      for (const DeviceName& device : devices) EXPECT_TRUE(seen.insert(device).second);
    }
    ++formed;
  }
  EXPECT_GT(formed, 5);
}

// What no device can hold is not formed; with a second device it is.
TEST(Packing, FormsNothingThatDoesNotFit) {
  PlanRequest request = pool_of({{"a", "a"}}, {{"a", 1}});
  PartitionRequest part;
  part.devices = {{"n0", 0}};
  part.minibatch = 32;
  const std::int64_t alone =
      partition(request.cluster, request.profile, part).ledgers.front().total();
  for (DeviceKind& kind : request.cluster.kinds) kind.memory = alone - 1;
  const Packing packing(request, 32, 1);
  EXPECT_EQ(packing.throughput({{{"n0", 0}}}), std::nullopt);
  EXPECT_TRUE(packing.compositions(2, 12).empty());
  ASSERT_EQ(packing.compositions(1, 12).size(), 1U);
  EXPECT_EQ(packing.compositions(1, 12).front().front().size(), 2U);
}

}  // namespace search_packing_test
}  // namespace hetpipe
