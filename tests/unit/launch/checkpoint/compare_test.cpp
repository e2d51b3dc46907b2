// SPDX-License-Identifier: Apache-2.0
#include "launch/checkpoint/compare.h"

#include <gmock/gmock.h>

#include <limits>

#include "tests/unit/store/sample_checkpoint.h"

namespace hetpipe {
namespace checkpoint_compare_test {

using ::testing::ElementsAre;
using Kind = TensorDifference::Kind;

CheckpointDifference compare(const Checkpoint& a, const Checkpoint& b,
                             WithExact exact = WithExact::yes, double tolerance = 0) {
  return compare_checkpoints(a, b, exact, tolerance);
}

TEST(CompareCheckpoints, EqualOnesDoNotDiffer) {
  EXPECT_TRUE(compare(sample_checkpoint(), sample_checkpoint()).none());
}

TEST(CompareCheckpoints, NotANumberEqualsItself) {
  Checkpoint a = sample_checkpoint();
  a.parameters[0].values[3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(compare(a, a).none());
}

TEST(CompareCheckpoints, AttributesAreNamedWithBothValues) {
  const Checkpoint a = sample_checkpoint();
  Checkpoint b = a;
  b.label = 13;
  b.sampler.consumed = 7;
  b.exact->numbers.erase("build");
  EXPECT_THAT(compare(a, b).attributes,
              ElementsAre(AttributeDifference{"exact/build", "-4", "missing"},
                          AttributeDifference{"label", "12", "13"},
                          AttributeDifference{"sampler/consumed", "150752", "7"}));
  EXPECT_EQ(compare(a, b, WithExact::no).attributes.size(), 2u);
}

TEST(CompareCheckpoints, ValuesAreCountedAndMeasured) {
  Checkpoint a = sample_checkpoint();
  a.parameters[3].values = std::vector<float>(21, 2);
  Checkpoint b = a;
  b.parameters[3].values[4] = 2.5;
  b.parameters[3].values[20] = 4;
  EXPECT_THAT(compare(a, b).tensors,
              ElementsAre(TensorDifference{"model/fc/weight", Kind::values, 21, 2, 2, 0.5}));
}

TEST(CompareCheckpoints, ToleranceIsRelative) {
  Checkpoint a = sample_checkpoint();
  a.parameters[1].values = {1000, 1, 0, 0, 0, -0.0f};
  Checkpoint b = a;
  b.parameters[1].values = {1001, 1.5, 0, 0, 0, 0};
  EXPECT_EQ(compare(a, b).tensors.at(0).differing, 3);  // the sign of 0 too
  EXPECT_EQ(compare(a, b, WithExact::yes, 0.01).tensors.at(0).differing, 1);
  EXPECT_TRUE(compare(a, b, WithExact::yes, 0.34).none());
}

TEST(CompareCheckpoints, NoNumberIsInfinitelyFar) {
  Checkpoint a = sample_checkpoint();
  Checkpoint b = a;
  b.statistics[0].values[0] = std::numeric_limits<float>::quiet_NaN();
  b.statistics[1].values[0] = std::numeric_limits<float>::infinity();
  for (const TensorDifference& t : compare(a, b, WithExact::yes, 1e6).tensors) {
    EXPECT_EQ(t.absolute, std::numeric_limits<double>::infinity());
    EXPECT_EQ(t.differing, 1);
  }
  EXPECT_EQ(compare(a, b, WithExact::yes, 1e6).tensors.size(), 2u);
}

TEST(CompareCheckpoints, MissingTensorsAndOtherShapes) {
  const Checkpoint a = sample_checkpoint();
  Checkpoint b = a;
  b.parameters[3].shape = {3, 7};
  b.statistics.pop_back();
  b.slots["velocity"].push_back(sample_tensor("fc/weight", {7, 3}, "in,out"));
  b.exact.reset();
  EXPECT_THAT(compare(a, b, WithExact::no).tensors,
              ElementsAre(TensorDifference{"model/bn1/variance", Kind::only_first, 6, 0, 0, 0},
                          TensorDifference{"model/fc/weight", Kind::shape, 21, 0, 0, 0},
                          TensorDifference{"optimizer/velocity/fc/weight", Kind::only_second, 21, 0,
                                           0, 0}));
  EXPECT_EQ(compare(a, b).tensors.size(), 6u);
}

}  // namespace checkpoint_compare_test
}  // namespace hetpipe
