// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "cases.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {
namespace hostile_files_test {

using test::user_error;
using testing::HasSubstr;

std::string cluster_with(const std::string& lines) {
  return "format = 1\n[device.a]\nmemory = 1000\n" + lines +
         "[link.intra_node]\nbandwidth = 1\n[link.inter_node]\nbandwidth = 1\n";
}

std::string cluster_error(const std::string& text) {
  return user_error([&] { parse_cluster(text, "c.toml"); });
}

// The parser makes a table inside of a table for each part: 100,000 of them overflow the stack.
TEST(FuzzedFiles, KeysOfManyPartsAreRefusedWithTheirLine) {
  const auto key = [](int parts) {
    std::string text = "a";
    for (int i = 1; i < parts; ++i) text += i % 2 != 0 ? ".\"b.c\"" : " . d";
    return text;
  };
  for (const int parts : {101, 100'000}) {
    for (const std::string& text :
         {"x = 1\n" + key(parts) + " = 1\n", "# " + key(parts) + "\n[" + key(parts) + "]\n",
          "y = '''\n'''\nx = { " + key(parts) + " = 1 }\n"}) {
      EXPECT_THAT(cluster_error(text), HasSubstr("a key has more than 100 parts"));
    }
  }
  EXPECT_THAT(cluster_error("x = 1\n" + key(101) + " = 1\n"), HasSubstr("c.toml:2: not TOML"));
  // Dots elsewhere do not count.
  const std::string dots(1000, '.');
  const std::string elsewhere = "# " + dots + "\nx = \"" + dots + "\"\ny = '" + dots + "'\n";
  EXPECT_THAT(cluster_error(elsewhere), testing::Not(HasSubstr("not TOML")));
}

// Found by fuzzing: toml++ stopped the program, or continued with nonsense in a release build.
TEST(FuzzedFiles, BracketWithoutAKeyIsRefusedWithItsLine) {
  for (const std::string line : {"[!x]", "[[!x]]", "[ #", "[=]"}) {
    SCOPED_TRACE(line);
    const std::string text = "format = 1\n[device.a]\nmemory = 1\n" + line + "\n[x]\n";
    EXPECT_THAT(cluster_error(text), HasSubstr("c.toml:4: not TOML"));
  }
}

// Found by fuzzing: undefined behaviour in toml++ for most letters beyond ASCII.
TEST(FuzzedFiles, LettersBeyondAsciiAreRefusedOutsideOfStrings) {
  EXPECT_THAT(cluster_error("format = 1\nk\u00e9y = 1\n"), HasSubstr("c.toml:2: not TOML"));
  EXPECT_THAT(cluster_error("format = 1\nmemory = 2_000\u0427000\n"),
              HasSubstr("c.toml:2: not TOML"));
  const Cluster c = parse_cluster(
      cluster_with("[[node]]\nname = \"kn\u00f6del\"  # \u0427\ndevices = [\"a\"]\n"), "c.toml");
  EXPECT_EQ(c.nodes.at(0).name, "kn\u00f6del");
}

// Found by fuzzing: read, and refused once it was written again.
TEST(FuzzedFiles, EmptyListsOfTablesAreRefused) {
  EXPECT_THAT(user_error([] {
                parse_profile("format = 1\nmodel = \"m\"\nlayer = []\nmeasurement = []\n",
                              "p.toml");
              }),
              testing::AllOf(HasSubstr("p.toml:3: the file: layer is empty"),
                             HasSubstr("p.toml:4: the file: measurement is empty")));
}

TEST(AbsurdFiles, HostListsEndInAMessage) {
  for (const std::string& name : std::vector<std::string>{
           "n[0-999999999]", "n[0-99999999999999999999]", "n[0-65536]", "n[0-255]m[0-255]x[0-1]",
           "n[" + std::string(100'000, '0') + "-65535]"}) {
    EXPECT_THAT(cluster_error(cluster_with("[[node]]\nname = \"" + name + "\"\ndevices = []\n")),
                HasSubstr("c.toml:5: node name"));
  }
}

TEST(AbsurdFiles, NodesAndDevicesAreCounted) {
  std::string many;
  for (const std::string name : {"a", "b"}) {
    many += "[[node]]\nname = \"" + name + "[0-65534]\"\ndevices = []\n";
  }
  EXPECT_THAT(cluster_error(cluster_with(many)), HasSubstr("expands to more than 65536 nodes"));
  std::string devices = "\"a\"";
  for (int i = 1; i < 1000; ++i) devices += ", \"a\"";
  EXPECT_THAT(
      cluster_error(cluster_with("[[node]]\nname = \"n[0-65535]\"\ndevices = [" + devices + "]\n")),
      HasSubstr("makes more than 1048576 devices"));
}

TEST(AbsurdFiles, LargeHostListsAreReadAtOnce) {
  const Cluster c =
      parse_cluster(cluster_with("[[node]]\nname = \"n[0-65535]\"\ndevices = []\n"), "c.toml");
  EXPECT_EQ(c.nodes.size(), 65536u);  // in time that does not grow with its square
}

TEST(AbsurdFiles, NumbersEndInAMessage) {
  for (const std::string value : {"1e300", "-1", "0", "nan", "inf", "-inf", "9223372036854775807",
                                  "9223372036854775808", "1e999"}) {
    SCOPED_TRACE(value);
    EXPECT_THAT(cluster_error("format = 1\n[device.a]\nmemory = " + value +
                              "\n[[node]]\nname = \"n\"\ndevices = []\n[link.intra_node]\n"
                              "bandwidth = 1\n"),
                HasSubstr("c.toml:3: "));
    if (value == "9223372036854775807" || value == "0") continue;
    EXPECT_THAT(cluster_error("format = 1\n[device.a]\nmemory = 1\n[[node]]\nname = \"n\"\n"
                              "devices = []\n[link.intra_node]\nbandwidth = " +
                              value + "\n"),
                HasSubstr("c.toml:8: "));
  }
}

}  // namespace hostile_files_test
}  // namespace hetpipe
