// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/allocation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "../cases.h"
#include "base/text.h"

namespace hetpipe {
namespace planners_allocation_test {

using test::user_error;
using testing::HasSubstr;

// One letter per device: that of its kind. Nodes of the paper, in order of power.
const Cluster kPaper = test::cluster_of(
    {{"V", "V", "V", "V"}, {"R", "R", "R", "R"}, {"G", "G", "G", "G"}, {"Q", "Q", "Q", "Q"}}, 1);
const std::vector<double> kSpeed{4, 3, 2, 1};

std::string drawn(const Cluster& cluster, const Allocation& allocation) {
  std::vector<std::string> workers;
  for (const auto& devices : allocation) {
    std::string word;
    for (const DeviceName& device : devices) word += cluster.kind_of(device).name;
    workers.push_back(word);
  }
  return join(workers, " ");
}

std::string formed(const Cluster& cluster, const std::string& policy,
                   const std::vector<double>& speed, std::optional<int> number = {}) {
  const Allocation allocation = allocate(cluster, policy, speed, number);
  std::map<DeviceName, int> seen;
  for (const auto& devices : allocation) {
    for (const DeviceName& device : devices) ++seen[device];
  }
  EXPECT_EQ(seen.size(), cluster.devices().size());
  for (const auto& [device, times] : seen) EXPECT_EQ(times, 1) << to_string(device);
  return drawn(cluster, allocation);
}

TEST(Allocation, ThePapersTable) {
  EXPECT_EQ(formed(kPaper, "np", kSpeed), "VVVV RRRR GGGG QQQQ");
  EXPECT_EQ(formed(kPaper, "ed", kSpeed), "VRGQ VRGQ VRGQ VRGQ");
  EXPECT_EQ(formed(kPaper, "hd", kSpeed), "VVQQ VVQQ RRGG RRGG");
}

TEST(Allocation, HybridGoesByPowerNotByTheFile) {
  EXPECT_EQ(formed(kPaper, "hd", {1, 2, 3, 4}), "QQVV QQVV GGRR GGRR");
}

TEST(Allocation, AGivenNumber) {
  EXPECT_EQ(formed(kPaper, "np", kSpeed, 8), "VV VV RR RR GG GG QQ QQ");
  EXPECT_EQ(formed(kPaper, "np", kSpeed, 2), "VVVVRRRR GGGGQQQQ");
  EXPECT_EQ(formed(kPaper, "np", kSpeed, 1), "VVVVRRRRGGGGQQQQ");
  EXPECT_EQ(formed(kPaper, "ed", kSpeed, 2), "VVRRGGQQ VVRRGGQQ");
  EXPECT_EQ(formed(kPaper, "ed", kSpeed, 3), "VVRRGGQQ VRGQ VRGQ");
  EXPECT_EQ(formed(kPaper, "hd", kSpeed, 2), "VVVVQQQQ RRRRGGGG");
  EXPECT_EQ(formed(kPaper, "hd", kSpeed, 8), "VQ VQ VQ VQ RG RG RG RG");
}

TEST(Allocation, RaggedNodes) {  // three, one and two devices, and a server without any
  const Cluster ragged = test::cluster_of({{"a", "b", "c"}, {"d"}, {"e", "e"}, {}}, 1);
  const std::vector<double> speed{5, 4, 3, 2, 1};
  EXPECT_EQ(formed(ragged, "np", speed), "abc d ee");
  EXPECT_EQ(formed(ragged, "ed", speed), "ade be c");
  EXPECT_EQ(formed(ragged, "hd", speed), "abe ce d");  // the middle node by power stays alone
}

TEST(Allocation, RefusesWhatCannotBeFormed) {
  const auto error = [&](const char* policy, int number) {
    return user_error([&] { allocate(kPaper, policy, kSpeed, number); });
  };
  EXPECT_THAT(error("np", 3),
              HasSubstr("policy np cannot form 3 virtual workers (4 nodes have devices)"));
  EXPECT_THAT(error("np", 20), HasSubstr("node n0 has too few devices to split it into 5"));
  EXPECT_THAT(error("ed", 5), HasSubstr("the largest node has 4"));
  EXPECT_THAT(error("hd", 3), HasSubstr("form 2 pairs"));
  EXPECT_THAT(error("hd", 20), HasSubstr("8 devices for 10 virtual workers"));
  EXPECT_THAT(error("ed", 0), HasSubstr("at least one virtual worker is needed"));
  EXPECT_THAT(error("nd", 4), HasSubstr("unknown allocation policy 'nd'"));
  EXPECT_THAT(user_error([] { allocate(test::cluster_of({{}}, 1), "np", {}, {}); }),
              HasSubstr("no node has a device"));
}

}  // namespace planners_allocation_test
}  // namespace hetpipe
