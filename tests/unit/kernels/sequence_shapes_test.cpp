// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "kernels/layer.h"

namespace hetpipe {
namespace sequence_shapes_test {

using testing::HasSubstr;

TEST(SequenceShapes, Outputs) {
  EXPECT_EQ(infer_shapes(Embedding{65, 48}, {{8, 64}}).output, (Shape{8, 64, 48}));
  EXPECT_EQ(infer_shapes(PositionEmbedding{}, {{8, 64, 48}}).output, (Shape{8, 64, 48}));
  EXPECT_EQ(infer_shapes(LayerNorm{}, {{8, 64, 48}}).output, (Shape{8, 64, 48}));
  EXPECT_EQ(infer_shapes(Gelu{}, {{8, 64, 48}}).output, (Shape{8, 64, 48}));
  EXPECT_EQ(infer_shapes(SelfAttention{4}, {{8, 64, 144}}).output, (Shape{8, 64, 48}));
  EXPECT_EQ(infer_shapes(Lstm{30}, {{8, 64, 48}}).output, (Shape{8, 64, 30}));
  EXPECT_EQ(infer_shapes(Linear{10}, {{8, 64, 48}}).output, (Shape{8, 64, 10}));
  EXPECT_EQ(infer_shapes(SoftmaxCrossEntropy{}, {{8, 64, 10}}).output, (Shape{8}));
}

TEST(SequenceShapes, Parameters) {
  const LayerShapes embedding = infer_shapes(Embedding{65, 48}, {{8, 64}});
  EXPECT_EQ(embedding.parameters[0].shape, (Shape{65, 48}));
  EXPECT_EQ(embedding.parameters[0].initial, Initial::normal);
  EXPECT_EQ(embedding.parameters[0].bound, 0.02f);
  EXPECT_EQ(infer_shapes(PositionEmbedding{}, {{8, 64, 48}}).parameters[0].shape, (Shape{64, 48}));
  EXPECT_EQ(infer_shapes(PositionEmbedding{100}, {{8, 64, 48}}).parameters[0].shape,
            (Shape{100, 48}));
  const LayerShapes lstm = infer_shapes(Lstm{30}, {{8, 64, 48}});
  ASSERT_EQ(lstm.parameters.size(), 3u);
  EXPECT_EQ(lstm.parameters[0].shape, (Shape{48, 120}));
  EXPECT_EQ(lstm.parameters[1].shape, (Shape{30, 120}));
  EXPECT_EQ(lstm.parameters[2].shape, (Shape{120}));
  const Linear tied{.output_features = 65, .bias = false, .transposed = true, .deviation = 0.1f};
  const LayerShapes linear = infer_shapes(tied, {{8, 64, 48}});
  ASSERT_EQ(linear.parameters.size(), 1u);
  EXPECT_EQ(linear.parameters[0].shape, (Shape{65, 48}));
  EXPECT_EQ(linear.parameters[0].initial, Initial::normal);
}

// Multiply-adds count two: by hand of the matrix products.
TEST(SequenceShapes, Work) {
  EXPECT_DOUBLE_EQ(infer_shapes(Linear{10}, {{8, 64, 48}}).forward_flops, 2.0 * 8 * 64 * 48 * 10);
  const LayerShapes attention = infer_shapes(SelfAttention{4}, {{8, 64, 144}});
  EXPECT_EQ(attention.stash_bytes, 4 * 8 * 4 * 64 * 64);
  EXPECT_GE(attention.forward_flops, 2 * 2.0 * 8 * 64 * 64 * 48);
  EXPECT_LT(attention.forward_flops, 1.2 * 2 * 2.0 * 8 * 64 * 64 * 48);
  const LayerShapes lstm = infer_shapes(Lstm{30}, {{8, 64, 48}});
  EXPECT_EQ(lstm.stash_bytes, 4 * 8 * 64 * 30 * 5);
  EXPECT_GE(lstm.forward_flops, 2.0 * 8 * 64 * (48 + 30) * 120);
}

TEST(SequenceShapes, SaysWhatDoesNotFit) {
  const auto refusal = [](const LayerSpec& spec, const Shape& in) -> std::string {
    try {
      infer_shapes(spec, {in});
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal(Embedding{65, 48}, {8, 64, 1}),
            "embedding 65 x 48: input (8, 64, 1) is not (N, T)");
  EXPECT_THAT(refusal(Embedding{0, 48}, {8, 64}), HasSubstr("a vocabulary of 0"));
  EXPECT_THAT(refusal(Embedding{65, 0}, {8, 64}), HasSubstr("0 features are not positive"));
  EXPECT_THAT(refusal(Embedding{65, 48, -1}, {8, 64}), HasSubstr("deviation -1 is negative"));
  EXPECT_THAT(refusal(PositionEmbedding{}, {8, 64}), HasSubstr("is not (N, T, features)"));
  EXPECT_THAT(refusal(PositionEmbedding{63}, {8, 64, 48}),
              HasSubstr("63 positions for samples of 64 tokens"));
  EXPECT_THAT(refusal(LayerNorm{0}, {8, 64, 48}), HasSubstr("epsilon 0 is not positive"));
  EXPECT_THAT(refusal(LayerNorm{}, {8}), HasSubstr("is not (N, ..., features)"));
  EXPECT_THAT(refusal(SelfAttention{5}, {8, 64, 144}), HasSubstr("of 5 heads"));
  EXPECT_THAT(refusal(SelfAttention{0}, {8, 64, 144}), HasSubstr("0 heads are not positive"));
  EXPECT_THAT(refusal(Lstm{0}, {8, 64, 48}), HasSubstr("0 hidden features"));
  EXPECT_THAT(refusal(Lstm{4}, {8, 48}), HasSubstr("is not (N, T, features)"));
  EXPECT_THAT(refusal(SoftmaxCrossEntropy{1}, {8, 10}), HasSubstr("smoothing 1 is not in [0, 1)"));
  EXPECT_THAT(refusal(SoftmaxCrossEntropy{.labelled = 65}, {8, 64, 10}),
              HasSubstr("65 labelled of 64 tokens"));
}

}  // namespace sequence_shapes_test
}  // namespace hetpipe
