// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/test_share.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "base/error.h"
#include "tests/unit/data/scratch_folder.h"

namespace hetpipe {
namespace test_share_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 100 of class 0, 10 of class 1, 3 of class 2, mixed.
std::vector<std::int32_t> mixed() {
  std::vector<std::int32_t> labels;
  for (int i = 0; i < 100; ++i) {
    labels.push_back(0);
    if (i % 10 == 0) labels.push_back(1);
    if (i % 40 == 0) labels.push_back(2);
  }
  return labels;
}

TEST(TestShare, TakesItsShareOfEveryClass) {
  const std::vector<std::int32_t> labels = mixed();
  ASSERT_EQ(labels.size(), 113u);
  const std::vector<bool> members = test_members(labels, 0.2, "data.h5");
  std::vector<int> tests(3);
  int in_first_half = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (!members[i]) continue;
    ++tests[static_cast<std::size_t>(labels[i])];
    in_first_half += i < labels.size() / 2 ? 1 : 0;
  }
  EXPECT_THAT(tests, ::testing::ElementsAre(20, 2, 1));  // 0.6 of a sample is one
  EXPECT_GT(in_first_half, 3);                           // drawn, not cut off
  EXPECT_LT(in_first_half, 20);
  EXPECT_EQ(test_members(labels, 0.2, "again"), members);
}

TEST(TestShare, RefusesSplitsThatLackSamples) {
  const auto refusal = [](double share) {
    return error_of<UserError>([&] { test_members(mixed(), share, "data.h5"); });
  };
  EXPECT_THAT(refusal(0.004), AllOf(HasSubstr("--test-share"), HasSubstr("0.004 of data.h5"),
                                    HasSubstr("no test samples"), HasSubstr("Raise it")));
  EXPECT_THAT(refusal(0.9), AllOf(HasSubstr("no training samples of class 2, which has 3"),
                                  HasSubstr("Lower it")));
}

TEST(TestShare, SplitsADataset) {
  Dataset whole;
  whole.height = 1;
  whole.width = 2;
  whole.channels = 1;
  whole.classes = 3;
  whole.labels = mixed();
  whole.size = std::ssize(whole.labels);
  for (int i = 0; i < whole.size; ++i) {
    whole.pixels.push_back(static_cast<std::uint8_t>(i));
    whole.pixels.push_back(static_cast<std::uint8_t>(255 - i));
  }
  const Dataset train = split_of(whole, 0.2, Split::train, Parts::both);
  const Dataset test = split_of(whole, 0.2, Split::test, Parts::both);
  EXPECT_EQ(train.size, 90);
  EXPECT_EQ(test.size, 23);
  EXPECT_NE(train.fingerprint, test.fingerprint);
  EXPECT_NE(split_of(whole, 0.3, Split::train, Parts::both).fingerprint, train.fingerprint);
  std::vector<std::uint8_t> seen;  // which sample each one was
  for (const Dataset* part : {&train, &test}) {
    ASSERT_EQ(part->pixels.size(), static_cast<std::size_t>(2 * part->size));
    ASSERT_EQ(std::ssize(part->labels), part->size);
    for (std::size_t i = 0; i < part->labels.size(); ++i) {
      seen.push_back(part->pixels[2 * i]);
      EXPECT_EQ(part->pixels[2 * i + 1], 255 - seen.back());
      EXPECT_EQ(part->labels[i], whole.labels[seen.back()]);
    }
  }
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_EQ(std::ssize(seen), whole.size);

  const Dataset labels = split_of(whole, 0.2, Split::test, Parts::labels);
  EXPECT_FALSE(labels.has_images());
  EXPECT_EQ(labels.labels, test.labels);
  EXPECT_EQ(labels.fingerprint, test.fingerprint);
}

}  // namespace test_share_test
}  // namespace hetpipe
