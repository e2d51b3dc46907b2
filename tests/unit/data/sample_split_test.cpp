// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/sample_split.h"

#include <gtest/gtest.h>

namespace hetpipe {
namespace sample_split_test {

TEST(SampleSplit, MicroBatchesAreAsEqualAsCanBe) {
  const SampleSplit split(4, {{1}});
  EXPECT_EQ(split.micro(8, 0), (SampleSpan{0, 2}));
  EXPECT_EQ(split.micro(8, 3), (SampleSpan{6, 8}));
  EXPECT_EQ(split.micro(6, 0), (SampleSpan{0, 2}));  // the first ones are longer
  EXPECT_EQ(split.micro(6, 1), (SampleSpan{2, 4}));
  EXPECT_EQ(split.micro(6, 2), (SampleSpan{4, 5}));
  EXPECT_EQ(split.micro(3, 3), (SampleSpan{3, 3}));  // none left
}

TEST(SampleSplit, ReplicasTakeTheirShares) {
  const SampleSplit split(2, {{3, 1}, {1, 1, 2}});
  EXPECT_EQ(split.of(8, 1, 0, 0), (SampleSpan{4, 7}));
  EXPECT_EQ(split.of(8, 1, 0, 1), (SampleSpan{7, 8}));
  EXPECT_EQ(split.of(8, 0, 1, 2), (SampleSpan{2, 4}));
  EXPECT_EQ(split.whole(8, 1, 1), (SampleSpan{2, 4}));
  EXPECT_EQ(split.replicas(1), 3);
}

// Whatever is left of a minibatch, every sample is computed once at every stage.
TEST(SampleSplit, EverySampleOnce) {
  const SampleSplit split(3, {{5, 2, 2}, {9}, {4, 5}});
  for (std::int64_t samples = 0; samples <= 27; ++samples) {
    for (int stage = 0; stage < 3; ++stage) {
      std::int64_t next = 0;
      for (int m = 0; m < 3; ++m) {
        for (int r = 0; r < split.replicas(stage); ++r) {
          const SampleSpan span = split.of(samples, m, stage, r);
          EXPECT_EQ(span.first, next);
          EXPECT_GE(span.count(), 0);
          next = span.end;
        }
      }
      EXPECT_EQ(next, samples);
    }
  }
}

TEST(SampleSpan, Common) {
  EXPECT_EQ(common({2, 6}, {4, 9}), (SampleSpan{4, 6}));
  EXPECT_EQ(common({2, 4}, {6, 9}).count(), 0);
}

}  // namespace sample_split_test
}  // namespace hetpipe
