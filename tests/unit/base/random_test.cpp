// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <gtest/gtest.h>

#include <vector>

namespace hetpipe {
namespace random_test {

// Known answers of Random123's kat_vectors for philox4x32-10.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(0xffffffffffffffffULL, {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822ULL, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Permutation, IsABijectionForEverySmallSize) {
  for (std::int64_t size = 1; size <= 130; ++size) {
    std::vector<bool> seen(static_cast<std::size_t>(size));
    for (std::int64_t i = 0; i < size; ++i) {
      const std::int64_t p = permuted(random_key({7, 3}), size, i);
      ASSERT_GE(p, 0);
      ASSERT_LT(p, size);
      ASSERT_FALSE(seen[static_cast<std::size_t>(p)]) << "size " << size << " value " << p;
      seen[static_cast<std::size_t>(p)] = true;
    }
  }
}

TEST(Permutation, DiffersBetweenKeys) {
  int same = 0;
  for (int i = 0; i < 1000; ++i) same += permuted(1, 1000, i) == permuted(2, 1000, i);
  EXPECT_LT(same, 20);
}

TEST(Normal, HasMeanZeroAndDeviationOne) {
  double sum = 0;
  double squares = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const double x = random_normal(11, static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  EXPECT_NEAR(sum / kDraws, 0, 0.03);
  EXPECT_NEAR(squares / kDraws, 1, 0.03);
}

}  // namespace random_test
}  // namespace hetpipe
