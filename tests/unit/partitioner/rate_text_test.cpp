// SPDX-License-Identifier: Apache-2.0
#include "partitioner/rate_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "partitioner/cluster/cluster.h"

namespace hetpipe {
namespace rate_text_test {

TEST(RateText, BitsAndBytes) {
  EXPECT_EQ(try_parse_rate("10Gb/s"), 1.25e9);
  EXPECT_EQ(try_parse_rate("1.25GB/s"), 1.25e9);
  EXPECT_EQ(try_parse_rate("100 Gbit/s"), 12.5e9);
  EXPECT_EQ(try_parse_rate("25Gbps"), 3.125e9);
  EXPECT_EQ(try_parse_rate("900 MiB/s"), 900.0 * 1024 * 1024);
  EXPECT_EQ(try_parse_rate("1kB/s"), 1e3);
  EXPECT_EQ(try_parse_rate("1KB/s"), 1e3);
  EXPECT_EQ(try_parse_rate("2 TB/s"), 2e12);
  EXPECT_EQ(try_parse_rate("8b/s"), 1);
}

TEST(RateText, NothingElse) {
  for (const char* text : {"", "10", "10G", "10GB", "GB/s", "10 Gigs", "10XB/s", "10GiiB/s",
                           "10  GB/s", "1e999GB/s", "nanGB/s", "10gB/s", "10GB/s "}) {
    EXPECT_EQ(try_parse_rate(text), std::nullopt) << text;
  }
}

constexpr const char* kBefore = R"(format = 1
[device.a]
memory = 1_000_000_000
memory_bandwidth = "653GB/s"
[[node]]
name = "n0"
devices = ["a"]
[link.intra_node]
bandwidth = )";

TEST(RateText, InAClusterFile) {
  const Cluster cluster = parse_cluster(kBefore + std::string("\"10Gb/s\"\n"), "c.toml");
  EXPECT_EQ(cluster.intra_node.bandwidth, 1.25e9);
  EXPECT_EQ(cluster.kinds[0].memory_bandwidth, 653e9);
  for (const char* wrong : {"\"10 Gigs\"", "\"-1GB/s\""}) {
    try {
      parse_cluster(kBefore + std::string(wrong) + "\n", "c.toml");
      FAIL() << wrong;
    } catch (const UserError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("c.toml:9: [link.intra_node]: bandwidth = "));
    }
  }
}

}  // namespace rate_text_test
}  // namespace hetpipe
