// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/loss_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace hetpipe {
namespace loss_watch_test {

// The waves in which something is said of these losses.
std::vector<int> remarks_on(const std::vector<double>& losses) {
  LossWatch watch;
  std::vector<int> waves;
  for (int wave = 0; wave < static_cast<int>(losses.size()); ++wave) {
    if (watch.next(wave, losses[static_cast<std::size_t>(wave)])) waves.push_back(wave);
  }
  return waves;
}

using testing::ElementsAre;

TEST(LossWatch, AHundredfoldLossIsRemarkedOnOnce) {
  EXPECT_THAT(remarks_on({2.3, 2, 50, 199, 201, 1e9, 1e12}), ElementsAre(4));
  EXPECT_THAT(remarks_on({2.3, 1e4}), ElementsAre(1));
}

TEST(LossWatch, OnceMoreAfterItCameBack) {
  EXPECT_THAT(remarks_on({2, 300, 19, 300}), ElementsAre(1, 3));
  EXPECT_THAT(remarks_on({2, 300, 30, 300}), ElementsAre(1));
}

TEST(LossWatch, TrainingsThatLearnAreLeftAlone) {
  EXPECT_THAT(remarks_on({2.3, 1, 0.1, 1e-4, 1e-7, 0.02, 1e-7, 2.3, 22}), ElementsAre());
  EXPECT_THAT(remarks_on({0, 0, 0}), ElementsAre());
}

TEST(LossWatch, NamesBothLosses) {
  LossWatch watch;
  watch.next(0, 2.5);
  const auto said = watch.next(7, 1234);
  ASSERT_TRUE(said);
  EXPECT_THAT(*said, testing::HasSubstr("1234 in wave 8 (it was 2.5 in wave 1)"));
  EXPECT_THAT(*said, testing::HasSubstr("--learning-rate"));
}

}  // namespace loss_watch_test
}  // namespace hetpipe
