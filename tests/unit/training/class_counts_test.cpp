// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/class_counts.h"

#include <gtest/gtest.h>

#include <array>

#include "base/masked_tokens.h"

// Eight predictions of three classes, counted by hand:
//
//   label 0: predicted 0 0 1    label 1: predicted 1 1 2 0    label 2: none    no label: 2
//
// Accuracy: 2/3, 2/4, none. IoU of 0: 2 / (3 labels + 3 predictions - 2) = 2/4; of 1: 2 / (4 + 3 -
// 2) = 2/5; of 2: 0 / (0 + 1 - 0) = 0. Mean: 0.9 / 3.
namespace hetpipe {
namespace class_counts_test {

ClassCounts counted(int first, int end) {
  constexpr std::array<std::array<int, 2>, 8> kSeen{
      {{0, 0}, {0, 0}, {0, 1}, {1, 1}, {1, 1}, {1, 2}, {1, 0}, {kNoLabel, 2}}};
  ClassCounts counts(3);
  for (int i = first; i < end; ++i) {
    const auto [label, predicted] = kSeen.at(static_cast<std::size_t>(i));
    std::array<float, 3> logits{-1, -1, -1};
    logits.at(static_cast<std::size_t>(predicted)) = 2;
    counts.add(label, logits);
  }
  return counts;
}

TEST(ClassCounts, ByHand) {
  const ClassCounts counts = counted(0, 8);
  EXPECT_EQ(counts.labels(), 7);
  EXPECT_EQ(counts.correct(), 4);
  EXPECT_EQ(counts.table(), (std::vector<std::int64_t>{2, 1, 0, 1, 2, 1, 0, 0, 0}));
  EXPECT_EQ(counts.confused(1, 2), 1);
  EXPECT_EQ(counts.labels_of(1), 4);
  EXPECT_DOUBLE_EQ(counts.accuracy(0).value(), 2.0 / 3);
  EXPECT_DOUBLE_EQ(counts.accuracy(1).value(), 0.5);
  EXPECT_FALSE(counts.accuracy(2));
  EXPECT_DOUBLE_EQ(counts.iou(0).value(), 0.5);
  EXPECT_DOUBLE_EQ(counts.iou(1).value(), 0.4);
  EXPECT_EQ(counts.iou(2).value(), 0);
  EXPECT_DOUBLE_EQ(counts.mean_iou().value(), 0.3);
}

TEST(ClassCounts, AClassThatIsNowhereHasNoIou) {
  ClassCounts counts(3);
  counts.add(0, std::array{1.0f, 0.0f, 0.0f});
  counts.add(1, std::array{1.0f, 0.0f, 0.0f});
  EXPECT_FALSE(counts.iou(2));
  EXPECT_DOUBLE_EQ(counts.mean_iou().value(), (0.5 + 0) / 2);
  EXPECT_FALSE(ClassCounts(2).mean_iou());
}

TEST(ClassCounts, PartsAddUp) {
  for (int cut = 0; cut <= 8; ++cut) {
    ClassCounts sum = counted(0, cut);
    sum.add(counted(cut, 8));
    EXPECT_EQ(sum.numbers(), counted(0, 8).numbers()) << cut;
  }
}

// The label's place among the logits: fifth counts, sixth does not; of equal ones the first comes
// first, as in the arg max.
TEST(ClassCounts, AmongTheFiveLargest) {
  constexpr std::array kLogits{3.0f, 9.0f, 5.0f, 5.0f, 7.0f, 1.0f, 5.0f, 2.0f};
  // In order: 1, 4, 2, 3, 6, then 0, 7, 5.
  const std::array<bool, 8> among{false, true, true, true, true, false, true, false};
  for (int label = 0; label < 8; ++label) {
    ClassCounts counts(8);
    counts.add(label, kLogits);
    EXPECT_EQ(counts.among_top(), among.at(static_cast<std::size_t>(label)) ? 1 : 0) << label;
    EXPECT_EQ(counts.confused(label, 1), 1);
  }
  ClassCounts equal(8);
  equal.add(5, std::array<float, 8>{});
  equal.add(4, std::array<float, 8>{});
  EXPECT_EQ(equal.among_top(), 1);
  EXPECT_EQ(equal.confused(4, 0), 1);
}

}  // namespace class_counts_test
}  // namespace hetpipe
