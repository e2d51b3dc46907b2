// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/model/zoo.h"

namespace hetpipe {
namespace batches_test {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr MeasuringMemory kNeeded{1e6, 1e6};

// A device that takes `seconds_per_sample` for each and has room for `most`.
BatchChoice chosen(double memory, double budget, double seconds_per_sample, int most = 1 << 20) {
  return measure_batches(kNeeded, memory, budget, [&](int batch) -> std::optional<double> {
    if (batch > most) return std::nullopt;
    return seconds_per_sample * batch;
  });
}

TEST(ProfileBatches, AllWhereMemoryAndTimeAllow) {
  const BatchChoice choice = chosen(1e9, 60, 1e-3);
  EXPECT_THAT(choice.batches, ElementsAre(1, 2, 8, 32, 128, 512));
  EXPECT_THAT(choice.why_no_more, HasSubstr("512"));
}

TEST(ProfileBatches, WhatDoesNotFitIsNotTried) {
  const BatchChoice choice = chosen(40e6, 60, 1e-3);
  EXPECT_THAT(choice.batches, ElementsAre(1, 2, 8, 32));
  EXPECT_EQ(choice.why_no_more, "128 samples need 129 MB of 40.0 MB");
}

TEST(ProfileBatches, TheBudgetHoldsForAllTogether) {
  // 1 + 2 + 8 + 32 seconds; 128 more are too many.
  EXPECT_THAT(chosen(1e9, 60, 1).batches, ElementsAre(1, 2, 8, 32));
  EXPECT_THAT(chosen(1e9, 42, 1).batches, ElementsAre(1, 2, 8));
  EXPECT_THAT(chosen(1e9, 60, 1).why_no_more, HasSubstr("128 samples might take 1 m 51 s more"));
  // One is measured however slow the device is.
  EXPECT_THAT(chosen(1e9, 60, 1000).batches, ElementsAre(1));
}

TEST(ProfileBatches, ADeviceMayHaveLessRoomThanItSaid) {
  const BatchChoice choice = chosen(1e9, 60, 1e-3, 8);
  EXPECT_THAT(choice.batches, ElementsAre(1, 2, 8));
  EXPECT_EQ(choice.why_no_more, "the device does not have enough memory for 32 samples");
}

TEST(ProfileBatches, MemoryGrowsWithTheSamplesAlone) {
  const Model model = make_model("lenet", Shape{28, 28, 1}, 10);
  const MeasuringMemory plain = measuring_memory(model, ElementType::fp32);
  const MeasuringMemory halves = measuring_memory(model, ElementType::bf16);
  EXPECT_DOUBLE_EQ(plain.fixed, 16.0 * static_cast<double>(model.parameter_count()));
  EXPECT_DOUBLE_EQ(plain.fixed, halves.fixed);
  // Outputs and their gradients: 28x28x16 twice, 14x14x16, 14x14x32 twice, 7x7x32, 128 twice, 10
  // ...
  EXPECT_GT(plain.per_sample, 8.0 * (2 * 12544 + 3136 + 2 * 6272 + 1568 + 256 + 10));
  EXPECT_LT(halves.per_sample, plain.per_sample);
  EXPECT_DOUBLE_EQ(plain.of(3) - plain.of(2), plain.per_sample);
}

}  // namespace batches_test
}  // namespace hetpipe
