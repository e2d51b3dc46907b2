// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hetpipe {
namespace base_text_test {

TEST(Text, Units) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(12'400'000), "12.4 MB");
  EXPECT_EQ(format_bytes(24e9), "24.0 GB");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_EQ(format_seconds(0.0031), "3.1 ms");
  EXPECT_EQ(format_seconds(125), "2 m 05 s");
  EXPECT_EQ(format_seconds(3720), "1 h 02 m");
  EXPECT_EQ(format_count(61'706), "61.7 k");
}

TEST(Text, NearestKnownWord) {
  const std::vector<std::string> known{"minibatch", "micro_batches", "in_flight"};
  EXPECT_EQ(nearest("minibtach", known), "minibatch");
  EXPECT_EQ(nearest("micro_batch", known), "micro_batches");
  EXPECT_EQ(nearest("zzz", known), "");
  EXPECT_EQ(nearest("slwo", std::vector<std::string>{"fast", "slow"}), "slow");  // one swap
  EXPECT_EQ(nearest("fats", std::vector<std::string>{"fast", "slow"}), "fast");
  EXPECT_EQ(nearest("", known), "");
  // Hyphens and capitals do not count.
  EXPECT_EQ(nearest("resnet18", std::vector<std::string>{"resnet-8", "resnet-18"}), "resnet-18");
  EXPECT_EQ(nearest("TITAN_V", std::vector<std::string>{"titan", "titan-v"}), "titan-v");
  EXPECT_EQ(unknown("key", "inflight", known),
            "unknown key 'inflight' (did you mean 'in_flight'?)");
}

TEST(Error, LongNamesAreShownByTheirBeginning) {
  const std::string name(100'000, 'x');
  const UserError error("plan.toml:3", "device '" + name + "' is unknown. Name one that exists.");
  EXPECT_EQ(std::string(error.what()), "plan.toml:3: device '" + std::string(99, 'x') +
                                           "... (100002 bytes) is unknown. Name one that exists.");
  Problems problems;
  problems.add(name, "is missing");
  EXPECT_LT(problems.list().front().where.size(), 200u);
  const std::string words = std::string(400, 'a') + ' ' + std::string(400, 'b');  // names, long
  EXPECT_EQ(UserError("", words).problems().front().text, words);
}

TEST(Text, TableAlignsNumbersRight) {
  Table table({"name", "count"});
  table.add({"a", "1"});
  table.add({"long name", "100"});
  EXPECT_EQ(table.text(), "name       count\na              1\nlong name    100\n");
}

}  // namespace base_text_test
}  // namespace hetpipe
