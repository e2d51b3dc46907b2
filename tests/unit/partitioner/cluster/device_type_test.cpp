// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/device_type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "../cases.h"
#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/profile/estimate.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {
namespace device_type_test {

using testing::HasSubstr;

const char* const kOneName[] = {"titan-v", "titanv", "TITAN_V", "TITAN V", "Titan-V"};

TEST(DeviceType, OneNameInEverySpelling) {
  for (const char* a : kOneName) {
    EXPECT_EQ(normal_device_type(a), "titanv");
    for (const char* b : kOneName) EXPECT_TRUE(same_device_type(a, b)) << a << ", " << b;
    for (const char* other : {"titan-x", "titan", "titan-v2", "v", "", "-", "titan-vv"}) {
      EXPECT_FALSE(same_device_type(a, other)) << a << ", " << other;
      EXPECT_FALSE(same_device_type(other, a)) << a << ", " << other;
    }
    ASSERT_NE(find_in_catalogue(a), nullptr) << a;
    EXPECT_EQ(find_in_catalogue(a)->name, "titan-v");
  }
  EXPECT_TRUE(same_device_type("", ""));
  EXPECT_FALSE(same_device_type("-", "_"));  // no name at all, and neither the other
  EXPECT_FALSE(same_device_type("", "-"));
}

TEST(DeviceType, NoTwoRowsOfTheCatalogueAreOneName) {
  std::map<std::string, std::string_view> rows;
  for (const CatalogueEntry& entry : catalogue()) {
    std::vector<std::string> names{std::string(entry.name)};
    for (const std::string& alias : split(entry.aliases, ' ')) names.push_back(alias);
    for (const std::string& name : names) {
      if (name.empty()) continue;
      const auto [row, is_new] = rows.emplace(normal_device_type(name), entry.name);
      EXPECT_EQ(row->second, entry.name) << name;
      EXPECT_EQ(find_in_catalogue(name), &entry);
    }
  }
}

std::string cluster_text(const std::string& kind, const std::string& device) {
  return "format = 1\n[device." + kind +
         "]\nmemory = 1000000000\n[[node]]\nname = \"n0\"\ndevices = [\"" + device +
         "\", \"a100\"]\n[link.intra_node]\nbandwidth = 1e9\n[[link.between]]\nkinds = [\"" +
         device + "\", \"A100\"]\nbandwidth = 2e9\n";
}

TEST(DeviceType, AClusterFileMayWriteItDifferentlyInEachPlace) {
  const Cluster cluster = parse_cluster(cluster_text("titan-v", "TITAN_V"), "lab.toml");
  ASSERT_EQ(cluster.kinds.size(), 2U);
  EXPECT_EQ(cluster.kinds[0].name, "titan-v");
  EXPECT_EQ(cluster.kind_of({"n0", 0}).memory, 1'000'000'000);
  EXPECT_EQ(cluster.link({"n0", 0}, {"n0", 1}).bandwidth, 2e9);
  const Cluster mine = parse_cluster(cluster_text("my-card", "MyCard"), "lab.toml");
  EXPECT_EQ(mine.kind_of({"n0", 0}).name, "my-card");
}

TEST(DeviceType, TwoSpellingsInOneFileAreAMistake) {
  try {
    parse_cluster("format = 1\n[device.titan-v]\n[device.titanv]\n" +
                      cluster_text("x", "titanv").substr(sizeof "format = 1"),
                  "lab.toml");
    FAIL() << "one type, two tables";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("lab.toml:3: [device.titanv] is [device.titan-v] again"));
  }
}

TEST(DeviceType, AProfileOfTheSameCardIsFound) {
  Profile profile = parse_profile(
      "format = 1\nmodel = \"m\"\n[[layer]]\nname = \"a\"\nparameter_bytes = 4\n"
      "[[measurement]]\ndevice = \"titan-v\"\nbatch = 8\nforward = [0.25]\nbackward = [0.5]\n"
      "output_bytes = [4]\nstash_bytes = [4]\n",
      "profile.toml");
  for (const char* name : kOneName) {
    DeviceKind kind;
    kind.name = name;
    EXPECT_EQ(measurements_for(profile, kind).size(), 1U) << name;
    // Of the card itself: not at the pace of what it emulates.
    kind.emulate = Emulation{3, kEmulatingDevice};
    EXPECT_EQ(costs_on(profile, kind, 8).forward, std::vector<double>{0.25}) << name;
  }
  const Cluster cluster = parse_cluster(
      "format = 1\n[[node]]\nname = \"n0\"\ndevices = [\"TITANV\"]\n[link.intra_node]\n"
      "bandwidth = 1e9\n",
      "lab.toml");
  EXPECT_EQ(with_estimates(profile, cluster, {}, {}).measurements.size(), 1U);  // none is needed
}

}  // namespace device_type_test
}  // namespace hetpipe
