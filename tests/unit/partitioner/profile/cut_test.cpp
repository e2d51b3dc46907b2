// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/cut.h"

#include <gtest/gtest.h>

namespace hetpipe {
namespace cut_test {

// Layer 0 feeds 1, 3 and 5; layer 5 also reads 3.
//   0 -> 1 -> 2 -> 3 -> 4 -> 5
const std::vector<std::vector<int>> kInputs{{}, {0}, {1}, {2, 0}, {3}, {4, 0, 3}};

TEST(Transfers, ASkipTensorGoesStraightAndOnce) {
  const std::vector<int> ends{1, 3, 5, 6};
  EXPECT_EQ(transfers(kInputs, ends), (std::vector<Transfer>{
                                          {0, 1, {0}},
                                          {0, 2, {0}},
                                          {0, 3, {0}},
                                          {1, 2, {2}},
                                          {2, 3, {3, 4}},
                                      }));
}

TEST(Transfers, OnceForAllConsumersInAStage) {
  const std::vector<int> ends{1, 6};
  EXPECT_EQ(transfers(kInputs, ends), (std::vector<Transfer>{{0, 1, {0}}}));
}

// Layer 0's gradient is ((g5 + g3) + g1), wherever the cuts are: stage 1 may not send g3 + g1.
TEST(Transfers, GradientsThatAreAddedToThoseOfALaterStageComeOneByOne) {
  const std::vector<int> ends{1, 4, 6};
  EXPECT_EQ(transfers(kInputs, ends),
            (std::vector<Transfer>{{0, 1, {0}, {0}}, {0, 2, {0}}, {1, 2, {3}}}));
  const std::vector<std::vector<int>> twice{{}, {0, 0}, {1, 0}};  // a layer that reads it twice
  const std::vector<int> each{1, 2, 3};
  EXPECT_EQ(transfers(twice, each),
            (std::vector<Transfer>{{0, 1, {0}, {0}}, {0, 2, {0}}, {1, 2, {1}}}));
}

TEST(Transfers, NothingInsideAStage) {
  const std::vector<int> ends{6};
  EXPECT_TRUE(transfers(kInputs, ends).empty());
}

TEST(StageOfLayer, LooksUpTheCut) {
  const std::vector<int> ends{1, 3, 6};
  EXPECT_EQ(stage_of_layer(ends, 0), 0);
  EXPECT_EQ(stage_of_layer(ends, 1), 1);
  EXPECT_EQ(stage_of_layer(ends, 2), 1);
  EXPECT_EQ(stage_of_layer(ends, 5), 2);
}

}  // namespace cut_test
}  // namespace hetpipe
