// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/device_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/cluster/catalogue.h"

namespace hetpipe {
namespace device_file_test {

using test::user_error;
using testing::HasSubstr;
using testing::Not;

// A kind that is made of a card of the catalogue has what it does not state from there.
TEST(DeviceFile, AKindMayNameItsEntryOfTheCatalogue) {
  const std::string end =
      "[[node]]\nname = \"n\"\ndevices = [\"a100-x4\"]\n[link.intra_node]\nbandwidth = 3e11\n"
      "gather_bandwidth = \"40GB/s\"\n";
  const Cluster c = parse_cluster(
      "format = 1\n[device.a100-x4]\ncatalogue = \"a100-sxm-80gb\"\ngpus = 4\n" + end, "c.toml");
  const DeviceKind& kind = c.kinds.at(0);
  const DeviceKind card = *try_catalogue_kind("a100-sxm-80gb");
  EXPECT_EQ(kind.name, "a100-x4");
  EXPECT_EQ(kind.gpus, 4);
  EXPECT_EQ(kind.memory, card.memory);
  EXPECT_EQ(kind.peak_flops_fp16, card.peak_flops_fp16);
  EXPECT_EQ(kind.tensor_efficiency, card.tensor_efficiency);
  EXPECT_FALSE(kind.launch_latency);
  EXPECT_EQ(c.intra_node.gather(), 40e9);
  EXPECT_EQ(parse_cluster(to_toml(c), "again"), c);

  const Cluster own = parse_cluster(
      "format = 1\n[device.a100-x4]\ncatalogue = \"a100-sxm-80gb\"\nmemory = 1_000\n"
      "launch_latency = 7e-5\ntensor_efficiency = 0.5\nmemory_efficiency = 0.6\n" +
          end,
      "c.toml");
  EXPECT_EQ(own.kinds[0].memory, 1000);
  EXPECT_EQ(own.kinds[0].launch_latency, 7e-5);
  EXPECT_EQ(own.kinds[0].tensor_efficiency, 0.5);
  EXPECT_EQ(own.kinds[0].memory_efficiency, 0.6);
  EXPECT_EQ(own.kinds[0].memory_bandwidth, card.memory_bandwidth);
  EXPECT_EQ(parse_cluster(to_toml(own), "again"), own);

  const std::string error = user_error([&] {
    parse_cluster(
        "format = 1\n[device.a100-x4]\ncatalogue = \"a100-smx-80gb\"\n"
        "launch_latency = -1\ntensor_efficiency = 1.5\nmemory_efficiency = 0\n" +
            end,
        "c.toml");
  });
  for (const char* part :
       {"c.toml:3: [device.a100-x4]: catalogue = \"a100-smx-80gb\" (did you mean 'a100-sxm-80gb'?)",
        "c.toml:4: [device.a100-x4]: launch_latency = -1",
        "c.toml:5: [device.a100-x4]: tensor_effi", "c.toml:6: [device.a100-x4]: memory_effi"}) {
    EXPECT_THAT(error, HasSubstr(part));
  }
  EXPECT_THAT(error, Not(HasSubstr("memory is missing")));
}

// Gathering is inside a node: the other links have no such key.
TEST(DeviceFile, OnlyTheLinkInsideANodeGathers) {
  const std::string error = user_error([] {
    parse_cluster(
        "format = 1\n[[node]]\nname = \"n[0-1]\"\ndevices = [\"v100\"]\n[link.intra_node]\n"
        "bandwidth = 1e9\n[link.inter_node]\nbandwidth = 1e9\ngather_bandwidth = 1e9\n",
        "c.toml");
  });
  EXPECT_THAT(error, HasSubstr("c.toml:9: [link.inter_node]: unknown key 'gather_bandwidth'"));
}

}  // namespace device_file_test
}  // namespace hetpipe
