// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/layer_cases.h"

#include "kernels/window.h"
#include "tests/unit/kernels/algebra_cases.h"

namespace hetpipe::test {

namespace {

void add_elementwise(std::vector<LayerCase>& cases, CpuKernel cpu) {
  for_each_elementwise([&]<class Layer>(const Layer& layer) {
    if (row_of<Layer>().cpu != cpu) return;
    for (const Shape& in :
         {Shape{1, 2, 2, 1}, Shape{2, 5, 7, 3}, Shape{3, 8, 8, 16}, Shape{1, 9, 6, 17},
          Shape{4, 7, 7, 70}, Shape{2, 13, 3, 130}, Shape{3, 1001}, Shape{30, 2001},
          Shape{1, 1, 12}, Shape{2, 5, 24}, Shape{3, 17, 60}, Shape{2, 33, 96}}) {
      cases.push_back({layer, {in}});
    }
  });
}

// Groups, dilation, uneven padding, steps that differ; forwards and transposed.
void add_convolutions(std::vector<LayerCase>& cases, const Shape& in) {
  const int channels = static_cast<int>(in[3]);
  const auto add = [&](const auto& spec) {
    const Window window = window_of(spec);
    if (window.rows.positions(in[1]) < 1 || window.columns.positions(in[2]) < 1) return;
    cases.push_back({spec, {in}});
  };
  for (const Convolution& c :
       {Convolution{.output_channels = channels, .padding = 1, .groups = channels},
        Convolution{.output_channels = channels,
        .kernel = 5,
        .stride = 2,
        .padding = 2,
        .bias = false,
        .groups = channels},
        Convolution{
            .output_channels = 2 * channels, .stride = {1, 2}, .padding = 1, .groups = channels},
        Convolution{.output_channels = channels,
        .padding = 2,
        .bias = false,
        .groups = channels,
        .dilation = 2},
        Convolution{.output_channels = channels,
        .kernel = {7, 1},
        .stride = {2, 1},
        .padding = {3, 0},
        .groups = channels},
        Convolution{.output_channels = channels,
        .kernel = {4, 2},
        .padding = {1, 0},
        .groups = channels,
        .padding_end = Sides{2, 1}},
        Convolution{.output_channels = 5, .padding = 2, .dilation = 2},
        Convolution{.output_channels = 17, .stride = 2, .padding = 3, .dilation = 3},
        Convolution{
            .output_channels = 9, .kernel = {2, 4}, .padding = {0, 1}, .padding_end = {{1, 2}}},
        Convolution{.output_channels = 8, .kernel = 2, .stride = 2, .padding_end = Sides{1}}}) {
    add(c);
  }
  for (const int width : {2, 4, 8, 11, 16, 32}) {
    if (channels % width != 0) continue;
    const int groups = channels / width;
    add(Convolution{.output_channels = channels, .padding = 1, .groups = groups});
    add(Convolution{
        .output_channels = 3 * groups, .stride = 2, .padding = 1, .bias = false, .groups = groups});
    add(Convolution{.output_channels = 2 * channels, .kernel = 1, .groups = groups});
  }
  for (const TransposedConvolution& c :
       {TransposedConvolution{.output_channels = 7},
        TransposedConvolution{.output_channels = 16, .kernel = 3, .padding = 1, .bias = false},
        TransposedConvolution{.output_channels = 5, .kernel = 3, .padding = 1, .output_padding = 1},
        TransposedConvolution{.output_channels = 3, .kernel = 4, .stride = 1, .dilation = 2},
        TransposedConvolution{.output_channels = 2 * channels,
        .kernel = {3, 2},
        .stride = {1, 2},
        .groups = channels}}) {
    if (transposed_output(c, in)[1] > 0 && transposed_output(c, in)[2] > 0) {
      cases.push_back({c, {in}});
    }
  }
}

}  // namespace

// Odd extents on purpose: one pixel, one channel, one sample, channels around 8, 16 and 32, strides
// that leave a rest, padding.
std::vector<LayerCase> summing_cases() {
  std::vector<LayerCase> cases;
  const std::vector<Shape> images = {{1, 1, 1, 1},  {2, 5, 7, 3},  {3, 8, 8, 16},
                                     {1, 9, 6, 17}, {4, 7, 7, 33}, {2, 12, 12, 32}};
  for (const Shape& in : images) {
    for (const Convolution& c :
         {Convolution{5, 1, 1, 0}, Convolution{16, 3, 1, 1}, Convolution{7, 3, 2, 1, false},
          Convolution{32, 5, 1, 2}, Convolution{19, 1, 2, 0}, Convolution{8, 2, 2, 0},
          Convolution{64, 3, 1, 1}, Convolution{6, 7, 2, 3}, Convolution{9, {1, 7}, 1, {0, 3}},
          Convolution{16, {7, 1}, 1, {3, 0}}, Convolution{5, {1, 3}, 1, {0, 1}},
          Convolution{4, {3, 2}, 2, {1, 0}}, Convolution{6, {2, 1}, 1, {2, 1}}}) {
      const bool fits = in[1] + 2 * c.padding.rows >= c.kernel.rows &&
                        in[2] + 2 * c.padding.columns >= c.kernel.columns;
      if (fits) cases.push_back({c, {in}});
    }
    add_convolutions(cases, in);
    cases.push_back({GlobalAveragePool{}, {in}});
    cases.push_back({AdaptivePool{}, {in}});
    cases.push_back({AdaptivePool{false, 3, 2}, {in}});
    for (const auto kind :
         {Resize::Kind::nearest, Resize::Kind::bilinear, Resize::Kind::bilinear_aligned}) {
      const double rows = static_cast<double>(in[1]), columns = static_cast<double>(in[2]);
      cases.push_back(
          {Resize{kind, static_cast<int>(2 * in[1]), static_cast<int>(2 * in[2]), 0.5, 0.5}, {in}});
      cases.push_back({Resize{kind, 3, 11, rows / 3, columns / 11}, {in}});
    }
    for (const int groups : {1, static_cast<int>(in[3])}) {
      if (in.elements() / groups == in[0]) continue;  // nothing deviates
      cases.push_back({GroupNorm{groups}, {in}});
      cases.push_back({GroupNorm{groups, 1e-3f, false}, {in}});
    }
    if (in.elements() > in[3]) {
      cases.push_back({BatchNorm{.affine = false, .tracked = false}, {in}});
      cases.push_back({BatchNorm{.tracked = false}, {{in[0], in[1] * in[2], in[3]}}});
    }
    if (in.elements() > in[3]) cases.push_back({BatchNorm{}, {in}});
  }
  for (const Shape& in : {Shape{1, 1}, Shape{1, 37}, Shape{5, 3}, Shape{32, 100}, Shape{7, 129}}) {
    for (const Linear& l : {Linear{1}, Linear{10}, Linear{33, false}, Linear{128}}) {
      cases.push_back({l, {in}});
    }
    if (in[0] > 1) cases.push_back({BatchNorm{1e-3f, 0.3f}, {in}});
    cases.push_back({Linear{.output_features = 21, .transposed = true}, {in}});
  }
  for (const Shape& in : {Shape{1, 1, 12}, Shape{2, 5, 24}, Shape{3, 17, 60}, Shape{2, 33, 96}}) {
    cases.push_back({Linear{19}, {in}});
    cases.push_back({Linear{.output_features = 40, .bias = false, .transposed = true}, {in}});
    for (const SelfAttention& a : {SelfAttention{1, true}, SelfAttention{1, false},
                                   SelfAttention{4, true}, SelfAttention{4, false}}) {
      cases.push_back({a, {in}});
    }
    for (const Lstm& l : {Lstm{1}, Lstm{7}, Lstm{32}}) cases.push_back({l, {in}});
    for (const auto kind : {Recurrent::Kind::lstm, Recurrent::Kind::gru}) {
      cases.push_back({Recurrent{kind, 1}, {in}});
      cases.push_back({Recurrent{kind, 7, false, true}, {in}});
      // With such weights a wide layer's gradients grow from step to step, and rounding with them.
      if (in[1] < 20) cases.push_back({Recurrent{kind, 32, true, true}, {in}});
    }
    for (const Shape& sequence : {in, Shape{in[0], 1, in[1], in[2]}, Shape{in[0] * in[1], in[2]}}) {
      cases.push_back({LayerNorm{}, {sequence}});
      cases.push_back({LayerNorm{1e-3f, false, true}, {sequence}});
      cases.push_back({LayerNorm{1e-3f, true, false}, {sequence}});
      cases.push_back({RmsNorm{}, {sequence}});
      cases.push_back({RmsNorm{1e-5f, true, true}, {sequence}});
      cases.push_back({RmsNorm{1e-5f, false}, {sequence}});
    }
    // Sequences as images of one column.
    const Shape column{in[0], in[1], 1, in[2]};
    cases.push_back(
        {Convolution{.output_channels = 9, .kernel = {3, 1}, .padding = {1, 0}}, {column}});
    cases.push_back({Convolution{.output_channels = static_cast<int>(in[2]),
                                 .kernel = {4, 1},
                                 .padding = {3, 0},
                                 .groups = static_cast<int>(in[2])},
                     {column}});
    cases.push_back(
        {TransposedConvolution{.output_channels = 6, .kernel = {4, 1}, .stride = {2, 1}},
         {column}});
  }
  cases.push_back({SoftmaxCrossEntropy{}, {{1, 2}}});
  cases.push_back({SoftmaxCrossEntropy{}, {{9, 10}}});
  cases.push_back({SoftmaxCrossEntropy{}, {{4, 1000}}});
  cases.push_back({SoftmaxCrossEntropy{}, {{3, 17, 70}}});
  cases.push_back({SoftmaxCrossEntropy{.labelled = 3}, {{3, 17, 70}}});
  cases.push_back({SoftmaxCrossEntropy{.skips = true}, {{3, 17, 70}}});
  add_elementwise(cases, CpuKernel::onednn);
  for (const auto& more : {small_algebra_cases(), large_algebra_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  cases.push_back({JointLoss{.terms = {{SoftmaxCrossEntropy{0.1f}, 0.5f, 1},
                                       {RegressionLoss{}, 2, 0},
                                       {OutputLoss{}, -1, 0},
                                       {SoftmaxCrossEntropy{}, 1, 1}},
                             .label_sizes = {6, 4}},
                   {{3, 4, 7}, {3, 2, 3}, {3}, {3, 4, 7}}});
  return cases;
}

std::vector<LayerCase> exact_cases() {
  std::vector<LayerCase> cases;
  for (const Shape& in : {Shape{1, 2, 2, 1}, Shape{2, 5, 7, 3}, Shape{3, 8, 8, 16},
                          Shape{1, 9, 6, 17}, Shape{4, 7, 7, 70}, Shape{2, 13, 3, 130}}) {
    cases.push_back({MaxPool{2, 2, 0}, {in}});
    cases.push_back({MaxPool{2, 1, 1}, {in}});
    cases.push_back({MaxPool{3, 2, 1}, {in}});
    cases.push_back({AveragePool{2, 2, 0}, {in}});
    cases.push_back({AveragePool{3, 2, 1}, {in}});
    cases.push_back({AveragePool{3, 1, 1}, {in}});
    cases.push_back({AveragePool{3, 1, 1, false}, {in}});
    cases.push_back({AveragePool{2, 2, 1, false}, {in}});
    cases.push_back({AveragePool{{1, 2}, 1, {0, 1}, false}, {in}});
    cases.push_back({AveragePool{{2, 1}, 2, {1, 0}}, {in}});
    cases.push_back({MaxPool{{2, 1}, 2, {1, 0}}, {in}});
    cases.push_back({MaxPool{{1, 2}, 1, 0}, {in}});
    for (const bool count_padding : {true, false}) {
      cases.push_back({AveragePool{3, 2, 1, count_padding, true}, {in}});
      cases.push_back({AveragePool{2, {2, 1}, 0, count_padding, true}, {in}});
    }
    cases.push_back({MaxPool{3, {1, 2}, 1, true}, {in}});
    cases.push_back({MaxPool{2, 1, 1, false, 2}, {in}});
    cases.push_back({AdaptivePool{true}, {in}});
    cases.push_back({AdaptivePool{true, 3, 4}, {in}});
    using Kind = RegressionLoss::Kind;
    for (const Kind kind :
         {Kind::squared, Kind::absolute, Kind::smooth_l1, Kind::binary_with_logits}) {
      cases.push_back({RegressionLoss{kind, 0.5f}, {in}});
    }
    cases.push_back({AlphaDropout{0.2f}, {in}});
    cases.push_back({Shift{}, {in}});
    cases.push_back({Shift{0, 4}, {in}});
    cases.push_back({Shift{2, 0}, {in}});
    cases.push_back({Concat{}, {in, {in[0], in[1], in[2], 5}}});
    cases.push_back({Concat{}, {{in[0], in[1], in[2], 1}, in, {in[0], in[1], in[2], 40}, in}});
    cases.push_back({Flatten{}, {in}});
    cases.push_back({Add{}, {in, in}});
    cases.push_back({Dropout{0.3f}, {in}});
    for (const int draws : {1, static_cast<int>(in[3])}) {
      cases.push_back({Dropout{.rate = 0.3f, .draws = draws}, {in}});
    }
    cases.push_back({MaxPool{{2, 1}, {1, 2}, {1, 0}, true, {2, 1}}, {in}});
  }
  cases.push_back({Flatten{}, {{2, 1, 1, 40}}});
  cases.push_back({Flatten{}, {{2, 33, 20, 1}}});
  cases.push_back({Add{}, {{3, 77}, {3, 77}}});
  cases.push_back({Concat{}, {{3, 7}, {3, 1}, {3, 90}}});
  cases.push_back({Concat{}, {{4, 40, 40, 30}, {4, 40, 40, 3}}});
  cases.push_back({AlphaDropout{0}, {{3, 77}}});
  cases.push_back({Dropout{0}, {{3, 77}}});
  cases.push_back({Dropout{0.5f}, {{5, 1}}});
  cases.push_back({SoftmaxCrossEntropy{0.1f}, {{9, 10}}});
  cases.push_back({SoftmaxCrossEntropy{0.2f}, {{2, 5, 3}}});
  cases.push_back({SoftmaxCrossEntropy{.smoothing = 0.1f, .mixed = true}, {{7, 40}}});
  cases.push_back(
      {SoftmaxCrossEntropy{
           .smoothing = 0.1f, .skips = true, .class_weights = ConstantTable<float>({0.5f, 2, 1})},
       {{2, 6, 3}}});
  cases.push_back({OutputLoss{}, {{5}}});
  cases.push_back({OutputLoss{}, {{5, 1}}});
  cases.push_back({RegressionLoss{}, {{5}}});
  cases.push_back({Embedding{70, 33, 0.02f, 7}, {{3, 130}}});
  for (const Shape& in : {Shape{1, 1}, Shape{3, 17}, Shape{2, 130}}) {
    cases.push_back({Embedding{1, 5}, {in}});
    cases.push_back({Embedding{70, 33}, {in}});
  }
  for (const Shape& in : {Shape{1, 1, 1}, Shape{3, 17, 5}, Shape{2, 130, 70}}) {
    cases.push_back({PositionEmbedding{}, {in}});
    cases.push_back({PositionEmbedding{200}, {in}});
  }
  add_elementwise(cases, CpuKernel::loop);
  return cases;
}

}  // namespace hetpipe::test
