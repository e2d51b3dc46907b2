// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/loss_scale.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/pipeline/worker_place.h"

namespace hetpipe {
namespace loss_scale_test {

TEST(LossScale, IsOneForAWave) {
  LossScale scale(4);
  EXPECT_EQ(scale.exponent(0), LossScale::kFirst);
  EXPECT_TRUE(scale.overflowed(LossScale::kFirst));
  for (Minibatch p = 1; p < 4; ++p) EXPECT_EQ(scale.exponent(p), LossScale::kFirst);
  EXPECT_EQ(scale.exponent(4), LossScale::kFirst - 1);
}

// Several stages tell of the same minibatch, and minibatches in flight were scaled alike.
TEST(LossScale, FallsOnceForOneExponent) {
  LossScale scale(1);
  EXPECT_TRUE(scale.overflowed(LossScale::kFirst));
  EXPECT_TRUE(scale.overflowed(LossScale::kFirst));
  EXPECT_EQ(scale.newest(), LossScale::kFirst - 1);
  EXPECT_TRUE(scale.overflowed(LossScale::kFirst - 1));
  EXPECT_EQ(scale.newest(), LossScale::kFirst - 2);
}

TEST(LossScale, EndsAtOne) {
  LossScale scale(1);
  for (int e = LossScale::kFirst; e > 0; --e) EXPECT_TRUE(scale.overflowed(e));
  EXPECT_EQ(scale.newest(), 0);
  EXPECT_FALSE(scale.overflowed(0));
}

TEST(LossScale, GrowsWhereNothingOverflows) {
  LossScale scale(1);
  Minibatch p = 0;
  for (; p < LossScale::kGrowAfter; ++p) EXPECT_EQ(scale.exponent(p), LossScale::kFirst);
  EXPECT_EQ(scale.exponent(p), LossScale::kFirst + 1);
  for (; p < 40 * LossScale::kGrowAfter; ++p) scale.exponent(p);
  EXPECT_EQ(scale.newest(), LossScale::kLargest);
}

TEST(LossScale, GoesOnFromItsState) {
  LossScale scale(1);
  Minibatch p = 0;
  EXPECT_TRUE(scale.overflowed(LossScale::kFirst));
  for (; p < LossScale::kGrowAfter / 2; ++p) scale.exponent(p);
  EXPECT_EQ(scale.state(), (LossScale::State{LossScale::kFirst - 1, LossScale::kGrowAfter / 2}));
  LossScale other(1, scale.state());
  for (; p < 3 * LossScale::kGrowAfter; ++p) EXPECT_EQ(other.exponent(p), scale.exponent(p)) << p;
  EXPECT_GT(scale.newest(), LossScale::kFirst - 1);
  for (; p < 40 * LossScale::kGrowAfter; ++p) scale.exponent(p);
  EXPECT_EQ(scale.state(), (LossScale::State{LossScale::kLargest, LossScale::kGrowAfter}));
}

// Inside of a wave that has begun under another exponent than the next one will have.
TEST(LossScale, GoesOnInsideOfAWave) {
  LossScale scale(4);
  for (Minibatch p = 0; p < 6; ++p) scale.exponent(p);
  EXPECT_TRUE(scale.overflowed(LossScale::kFirst));
  LossScale other(4, scale.state_after(5));
  std::vector<int> exponents;
  for (Minibatch p = 6; p < 3 * LossScale::kGrowAfter; ++p) {
    exponents.push_back(other.exponent(p));
    ASSERT_EQ(exponents.back(), scale.exponent(p)) << p;
  }
  EXPECT_EQ(exponents[1], LossScale::kFirst);      // of minibatch 7
  EXPECT_EQ(exponents[2], LossScale::kFirst - 1);  // of the next wave
}

TEST(LossScale, PowersOfTwo) {
  EXPECT_EQ(scale_of(0), 1.0f);
  EXPECT_EQ(scale_of(16), 65536.0f);
  EXPECT_EQ(scale_of(-3), 0.125f);
}

// Messages between devices of unlike precision: the smaller type, the sender's of equal ones.
TEST(WireType, IsTheSmallerOfBothEnds) {
  using enum ElementType;
  WorkerPlace place;
  EXPECT_EQ(place.wire_type(0, 0, 1, 0), fp32);
  place.element_types = {{fp32, bf16}, {fp16}, {fp32}};
  EXPECT_EQ(place.wire_type(0, 0, 1, 0), fp16);
  EXPECT_EQ(place.wire_type(0, 1, 1, 0), bf16);
  EXPECT_EQ(place.wire_type(1, 0, 0, 1), fp16);
  EXPECT_EQ(place.wire_type(1, 0, 2, 0), fp16);
  EXPECT_EQ(place.wire_type(2, 0, 0, 0), fp32);
}

}  // namespace loss_scale_test
}  // namespace hetpipe
