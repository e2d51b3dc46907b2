// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

#include "tests/unit/kernels/layer_cases.h"

namespace hetpipe {
namespace layer_shapes_test {

using testing::HasSubstr;

TEST(LayerShapes, OfAConvolution) {
  const LayerShapes s = infer_shapes(Convolution{64, 7, 2, 3}, {{8, 224, 225, 3}});
  EXPECT_EQ(s.output, (Shape{8, 112, 113, 64}));
  ASSERT_EQ(s.parameters.size(), 2u);
  EXPECT_EQ(s.parameters[0].shape, (Shape{64, 3, 7, 7}));
  EXPECT_EQ(s.parameters[0].initial, Initial::uniform);
  EXPECT_FLOAT_EQ(s.parameters[0].bound, std::sqrt(6.0f / 147.0f));
  EXPECT_EQ(s.parameters[1].shape, (Shape{64}));
  EXPECT_EQ(s.parameters[1].initial, Initial::zero);
  EXPECT_DOUBLE_EQ(s.forward_flops, 2.0 * 8 * 112 * 113 * 64 * 147);
  EXPECT_DOUBLE_EQ(s.backward_flops, 2 * s.forward_flops);
  EXPECT_TRUE(s.backward_needs_input);
  EXPECT_FALSE(s.backward_needs_output);
  EXPECT_EQ(infer_shapes(Convolution{4, 3, 1, 1, false}, {{1, 5, 5, 2}}).parameters.size(), 1u);
}

TEST(LayerShapes, OfAConvolutionThatIsNotSquare) {
  const LayerShapes s = infer_shapes(Convolution{5, {1, 7}, 1, {0, 3}}, {{2, 17, 16, 4}});
  EXPECT_EQ(s.output, (Shape{2, 17, 16, 5}));
  EXPECT_EQ(s.parameters[0].shape, (Shape{5, 4, 1, 7}));
  EXPECT_FLOAT_EQ(s.parameters[0].bound, std::sqrt(6.0f / 28.0f));
  EXPECT_DOUBLE_EQ(s.forward_flops, 2.0 * 2 * 17 * 16 * 5 * 28);
  EXPECT_EQ(infer_shapes(Convolution{5, {7, 1}, 2, {0, 3}}, {{2, 17, 16, 4}}).output,
            (Shape{2, 6, 11, 5}));
}

TEST(LayerShapes, OfALinearLayer) {
  const LayerShapes s = infer_shapes(Linear{10}, {{32, 84}});
  EXPECT_EQ(s.output, (Shape{32, 10}));
  EXPECT_EQ(s.parameters[0].shape, (Shape{84, 10}));
  EXPECT_FLOAT_EQ(s.parameters[0].bound, std::sqrt(6.0f / 84.0f));
  EXPECT_EQ(s.parameters[1].shape, (Shape{10}));
  EXPECT_DOUBLE_EQ(s.forward_flops, 2.0 * 32 * 84 * 10);
}

TEST(LayerShapes, OfALinearLayerWithNormalWeights) {
  const LayerShapes s = infer_shapes(Linear{.output_features = 10, .deviation = 0.25f}, {{32, 84}});
  EXPECT_EQ(s.parameters[0].initial, Initial::normal);
  EXPECT_FLOAT_EQ(s.parameters[0].bound, 0.25f);
}

TEST(LayerShapes, OfBatchNorm) {
  const LayerShapes s = infer_shapes(BatchNorm{}, {{8, 4, 4, 48}});
  EXPECT_EQ(s.output, (Shape{8, 4, 4, 48}));
  ASSERT_EQ(s.parameters.size(), 2u);
  EXPECT_EQ(s.parameters[0].initial, Initial::one);
  EXPECT_EQ(s.parameters[1].initial, Initial::zero);
  ASSERT_EQ(s.statistics.size(), 2u);
  EXPECT_EQ(s.statistics[0].initial, Initial::zero);
  EXPECT_EQ(s.statistics[1].initial, Initial::one);
  EXPECT_EQ(s.stash_bytes, 2 * 48 * 4);
}

TEST(LayerShapes, OfTheOthers) {
  const Shape in = {8, 7, 7, 16};
  EXPECT_EQ(infer_shapes(MaxPool{3, 2, 1}, {in}).output, (Shape{8, 4, 4, 16}));
  EXPECT_EQ(infer_shapes(MaxPool{2, 2, 0}, {in}).output, (Shape{8, 3, 3, 16}));
  EXPECT_EQ(infer_shapes(AveragePool{3, 1, 1}, {in}).output, in);
  EXPECT_EQ(infer_shapes(GlobalAveragePool{}, {in}).output, (Shape{8, 16}));
  EXPECT_EQ(infer_shapes(Flatten{}, {in}).output, (Shape{8, 784}));
  EXPECT_EQ(infer_shapes(Add{}, {in, in}).output, in);
  EXPECT_TRUE(infer_shapes(Relu{}, {in}).backward_needs_output);
  EXPECT_FALSE(infer_shapes(Relu{}, {in}).backward_needs_input);
  EXPECT_EQ(infer_shapes(Dropout{}, {in}).stash_bytes, in.elements());
  EXPECT_EQ(infer_shapes(SoftmaxCrossEntropy{}, {{8, 10}}).output, (Shape{8}));
  EXPECT_EQ(infer_shapes(AveragePool{{3, 1}, 1, {1, 0}, false}, {in}).output, in);
  EXPECT_EQ(infer_shapes(MaxPool{{1, 20}, 1, {0, 10}}, {{1, 2, 5, 3}}).output, (Shape{1, 2, 6, 3}));
  EXPECT_EQ(infer_shapes(Shift{}, {in}).output, in);
  for (const test::LayerCase& c : test::elementwise_cases(in)) {
    const LayerShapes s = infer_shapes(c.spec, c.inputs);
    EXPECT_EQ(s.output, in);
    EXPECT_NE(s.backward_needs_input, s.backward_needs_output);
    EXPECT_EQ(s.forward_in_place, !s.backward_needs_input);
  }
  EXPECT_EQ(infer_shapes(AlphaDropout{}, {in}).stash_bytes, in.elements());
  EXPECT_EQ(infer_shapes(Concat{}, {in, {8, 7, 7, 3}, {8, 7, 7, 1}}).output, (Shape{8, 7, 7, 20}));
  EXPECT_EQ(infer_shapes(Concat{}, {{8, 2}, {8, 5}}).output, (Shape{8, 7}));
}

std::string refusal(const LayerSpec& spec, const std::vector<Shape>& inputs) {
  try {
    infer_shapes(spec, inputs);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(LayerShapes, RefuseWhatDoesNotFit) {
  EXPECT_EQ(refusal(Convolution{8, 3, 1, 0}, {{8, 10}}),
            "convolution 3x3, 8 channels: input (8, 10) is not (N, H, W, C)");
  EXPECT_THAT(refusal(Convolution{8, 5, 1, 1}, {{1, 2, 9, 1}}), HasSubstr("does not fit"));
  EXPECT_THAT(refusal(Convolution{0}, {{1, 9, 9, 1}}), HasSubstr("0 output channels"));
  EXPECT_THAT(refusal(Convolution{8, 3, 0, 0}, {{1, 9, 9, 1}}), HasSubstr("stride 0"));
  EXPECT_THAT(refusal(Convolution{8, 3, 1, -1}, {{1, 9, 9, 1}}), HasSubstr("padding -1"));
  EXPECT_THAT(refusal(Linear{10}, {{1, 9, 9, 1}}), HasSubstr("flatten"));
  EXPECT_THAT(refusal(Linear{0}, {{1, 9}}), HasSubstr("0 output features"));
  EXPECT_THAT(refusal(Linear{.output_features = 1, .deviation = -1}, {{1, 9}}),
              HasSubstr("deviation -1 is negative"));
  EXPECT_THAT(refusal(MaxPool{3, 2, 2}, {{1, 9, 9, 1}}), HasSubstr("half the kernel"));
  EXPECT_THAT(refusal(MaxPool{17, 1, 0}, {{1, 20, 20, 1}}),
              HasSubstr("17x17 has more than 256 places"));
  EXPECT_THAT(refusal(Dropout{1.0f}, {{1, 9}}), HasSubstr("not in [0, 1)"));
  EXPECT_THAT(refusal(BatchNorm{0.0f}, {{2, 9}}), HasSubstr("epsilon"));
  EXPECT_THAT(refusal(BatchNorm{1e-5f, 2.0f}, {{2, 9}}), HasSubstr("momentum"));
  EXPECT_THAT(refusal(BatchNorm{}, {{9}}), HasSubstr("neither"));
  EXPECT_THAT(refusal(Add{}, {{2, 9}}), HasSubstr("1 inputs, where it takes 2"));
  EXPECT_THAT(refusal(Add{}, {{2, 9}, {2, 8}}), HasSubstr("differ"));
  EXPECT_THAT(refusal(Convolution{8, {1, 5}, 1, {0, 1}}, {{1, 9, 2, 1}}),
              HasSubstr("1x5 does not fit into the input (1, 9, 2, 1) with padding 0x1"));
  EXPECT_THAT(refusal(Convolution{8, {0, 5}, 1, 0}, {{1, 9, 9, 1}}), HasSubstr("kernel 0"));
  EXPECT_THAT(refusal(AveragePool{{3, 1}, 1, 1}, {{1, 9, 9, 1}}), HasSubstr("half the kernel 1"));
  EXPECT_THAT(refusal(AlphaDropout{1.0f}, {{1, 9}}), HasSubstr("not in [0, 1)"));
  EXPECT_THAT(refusal(Concat{}, {{2, 9}}), HasSubstr("1 inputs, where it takes 2 or more"));
  EXPECT_THAT(refusal(Concat{}, {{2, 4, 4, 9}, {2, 4, 5, 9}}), HasSubstr("more than their chann"));
  EXPECT_THAT(refusal(Concat{}, {{2, 9}, {2, 1, 1, 9}}), HasSubstr("more than their channels"));
  EXPECT_THAT(refusal(Concat{}, {{2, 9}, {3, 9}}), HasSubstr("more than their channels"));
  EXPECT_THAT(refusal(Shift{-1, 0}, {{2, 4, 4, 9}}), HasSubstr("not negative"));
  EXPECT_THAT(refusal(Shift{}, {{2, 9}}), HasSubstr("not (N, H, W, C)"));
  EXPECT_THAT(refusal(Relu{}, {{0, 9}}), HasSubstr("empty extent"));
  EXPECT_THAT(refusal(SoftmaxCrossEntropy{}, {{1, 2, 2, 3}}), HasSubstr("(N, features)"));
}

TEST(LayerShapes, OfLayersFromElsewhere) {
  const Shape in = {8, 7, 6, 12};
  const Convolution depthwise{.output_channels = 24, .padding = 1, .groups = 12};
  EXPECT_EQ(infer_shapes(depthwise, {in}).output, (Shape{8, 7, 6, 24}));
  EXPECT_EQ(infer_shapes(depthwise, {in}).parameters[0].shape, (Shape{24, 1, 3, 3}));
  EXPECT_EQ(
      infer_shapes(Convolution{.output_channels = 2, .stride = {1, 2}, .dilation = {2, 1}}, {in})
          .output,
      (Shape{8, 3, 2, 2}));
  EXPECT_EQ(
      infer_shapes(
          Convolution{.output_channels = 2, .kernel = 2, .padding = 0, .padding_end = Sides{1}},
          {in})
          .output,
      (Shape{8, 7, 6, 2}));
  const TransposedConvolution transposed{
      .output_channels = 6, .kernel = 3, .padding = 1, .output_padding = {1, 0}, .groups = 3};
  EXPECT_EQ(infer_shapes(transposed, {in}).output, (Shape{8, 14, 11, 6}));
  EXPECT_EQ(infer_shapes(transposed, {in}).parameters[0].shape, (Shape{12, 2, 3, 3}));
  EXPECT_EQ(infer_shapes(MaxPool{.kernel = 2, .ceil_mode = true}, {in}).output,
            (Shape{8, 4, 3, 12}));
  // The last window would start behind the image.
  EXPECT_EQ(infer_shapes(MaxPool{.kernel = 1, .stride = 3, .ceil_mode = true}, {in}).output,
            (Shape{8, 3, 2, 12}));
  EXPECT_EQ(infer_shapes(Resize{Resize::Kind::nearest, 3, 20}, {in}).output, (Shape{8, 3, 20, 12}));
  EXPECT_EQ(infer_shapes(AdaptivePool{true, 3, 2}, {in}).output, (Shape{8, 3, 2, 12}));
  EXPECT_EQ(infer_shapes(GroupNorm{4}, {in}).stash_bytes, 2 * 8 * 4 * 4);
  EXPECT_TRUE(infer_shapes(GroupNorm{4, 1e-5f, false}, {in}).parameters.empty());
  EXPECT_EQ(infer_shapes(RmsNorm{}, {in}).parameters.size(), 1u);
  EXPECT_TRUE(infer_shapes(BatchNorm{.affine = false, .tracked = false}, {in}).statistics.empty());
  EXPECT_EQ(infer_shapes(LayerNorm{1e-5f, false, true}, {in}).parameters[0].name, "shift");
  const LayerShapes gru = infer_shapes(Recurrent{Recurrent::Kind::gru, 5}, {{8, 7, 3}});
  EXPECT_EQ(gru.output, (Shape{8, 7, 5}));
  EXPECT_EQ(gru.parameters[0].shape, (Shape{15, 3}));
  EXPECT_EQ(gru.parameters[1].shape, (Shape{15, 5}));
  EXPECT_EQ(gru.parameters.size(), 4u);
  EXPECT_EQ(infer_shapes(RegressionLoss{}, {in}).output, (Shape{8}));
  EXPECT_EQ(infer_shapes(OutputLoss{}, {{8, 1}}).output, (Shape{8}));
}

TEST(LayerShapes, RefuseWhatDoesNotFitOfLayersFromElsewhere) {
  const Shape in = {8, 7, 6, 12};
  EXPECT_THAT(refusal(Convolution{.output_channels = 8, .groups = 5}, {in}),
              HasSubstr("5 groups do not divide 12 input and 8 output channels"));
  EXPECT_THAT(refusal(Convolution{.output_channels = 8, .dilation = 0}, {in}),
              HasSubstr("dilation 0"));
  EXPECT_THAT(refusal(Convolution{.output_channels = 8, .padding_end = Sides{-1}}, {in}),
              HasSubstr("padding -1"));
  EXPECT_THAT(refusal(TransposedConvolution{.output_channels = 8, .output_padding = 2}, {in}),
              HasSubstr("output padding 2x2 is not in [0, stride)"));
  EXPECT_THAT(
      refusal(MaxPool{.kernel = 2, .stride = 1, .padding = 2, .dilation = 4}, {{1, 2, 9, 1}}),
      HasSubstr("sees nothing"));
  EXPECT_THAT(refusal(Resize{}, {in}), HasSubstr("0x0 is empty"));
  EXPECT_THAT(refusal(AdaptivePool{false, 0, 1}, {in}), HasSubstr("0x1 is empty"));
  EXPECT_THAT(refusal(GroupNorm{5}, {in}), HasSubstr("5 groups do not divide"));
  EXPECT_THAT(refusal(RmsNorm{0}, {in}), HasSubstr("epsilon 0"));
  EXPECT_THAT(refusal(Recurrent{}, {{8, 7, 3}}), HasSubstr("0 hidden features"));
  EXPECT_THAT(refusal(Embedding{.vocabulary = 5, .features = 2, .padding = 5}, {{8, 7}}),
              HasSubstr("padding 5 is not in the vocabulary"));
  EXPECT_THAT(refusal(SoftmaxCrossEntropy{.class_weights = ConstantTable<float>({1, 2})}, {{8, 3}}),
              HasSubstr("2 class weights for 3 classes"));
  EXPECT_THAT(refusal(RegressionLoss{RegressionLoss::Kind::smooth_l1, 0}, {in}),
              HasSubstr("beta 0"));
  EXPECT_THAT(refusal(OutputLoss{}, {{8, 2}}), HasSubstr("not one loss of each sample"));
}

TEST(LayerText, NamesWhatMatters) {
  EXPECT_EQ(to_string(LayerSpec{Convolution{64, 3, 1, 0}}), "convolution 3x3, 64 channels");
  EXPECT_EQ(to_string(LayerSpec{Convolution{64, 3, 2, 1, false}}),
            "convolution 3x3, 64 channels, stride 2, padding 1, no bias");
  EXPECT_EQ(to_string(LayerSpec{Linear{10}}), "linear, 10 features");
  EXPECT_EQ(to_string(LayerSpec{MaxPool{3, 2, 1}}), "max pool 3x3, stride 2, padding 1");
  EXPECT_EQ(to_string(LayerSpec{Dropout{0.25f}}), "dropout 0.25");
  EXPECT_EQ(to_string(LayerSpec{Convolution{64, {1, 7}, 1, {0, 3}}}),
            "convolution 1x7, 64 channels, padding 0x3");
  EXPECT_EQ(to_string(LayerSpec{AveragePool{3, 1, 1, false}}),
            "average pool 3x3, padding 1 not counted");
  EXPECT_EQ(to_string(LayerSpec{AlphaDropout{}}), "alpha dropout 0.1");
  EXPECT_EQ(to_string(LayerSpec{Shift{}}), "shift by 1, 1");
  EXPECT_EQ(to_string(LayerSpec{Convolution{.output_channels = 8,
                                            .stride = {2, 1},
                                            .padding = 1,
                                            .bias = false,
                                            .groups = 8,
                                            .dilation = 2}}),
            "convolution 3x3, 8 channels, stride 2x1, padding 1, dilation 2, 8 groups, no bias");
  EXPECT_EQ(to_string(LayerSpec{TransposedConvolution{.output_channels = 8}}),
            "transposed convolution 2x2, 8 channels, stride 2");
}

}  // namespace layer_shapes_test
}  // namespace hetpipe
