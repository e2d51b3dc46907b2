// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/layer_cases.h"

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
    cases.push_back({GlobalAveragePool{}, {in}});
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
  }
  add_elementwise(cases, CpuKernel::onednn);
  for (const auto& more : {small_algebra_cases(), large_algebra_cases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
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
    cases.push_back({AlphaDropout{0.2f}, {in}});
    cases.push_back({Shift{}, {in}});
    cases.push_back({Shift{0, 4}, {in}});
    cases.push_back({Shift{2, 0}, {in}});
    cases.push_back({Concat{}, {in, {in[0], in[1], in[2], 5}}});
    cases.push_back({Concat{}, {{in[0], in[1], in[2], 1}, in, {in[0], in[1], in[2], 40}, in}});
    cases.push_back({Flatten{}, {in}});
    cases.push_back({Add{}, {in, in}});
    cases.push_back({Dropout{0.3f}, {in}});
  }
  cases.push_back({Flatten{}, {{2, 1, 1, 40}}});
  cases.push_back({Flatten{}, {{2, 33, 20, 1}}});
  cases.push_back({Add{}, {{3, 77}, {3, 77}}});
  cases.push_back({Concat{}, {{3, 7}, {3, 1}, {3, 90}}});
  cases.push_back({Concat{}, {{4, 40, 40, 30}, {4, 40, 40, 3}}});
  cases.push_back({AlphaDropout{0}, {{3, 77}}});
  cases.push_back({Dropout{0}, {{3, 77}}});
  cases.push_back({Dropout{0.5f}, {{5, 1}}});
  cases.push_back({SoftmaxCrossEntropy{}, {{1, 2}}});
  cases.push_back({SoftmaxCrossEntropy{}, {{9, 10}}});
  cases.push_back({SoftmaxCrossEntropy{}, {{4, 1000}}});
  cases.push_back({SoftmaxCrossEntropy{0.1f}, {{9, 10}}});
  cases.push_back({SoftmaxCrossEntropy{}, {{3, 17, 70}}});
  cases.push_back({SoftmaxCrossEntropy{0.2f}, {{2, 5, 3}}});
  cases.push_back({SoftmaxCrossEntropy{.labelled = 3}, {{3, 17, 70}}});
  for (const Shape& in : {Shape{1, 1}, Shape{3, 17}, Shape{2, 130}}) {
    cases.push_back({Embedding{1, 5}, {in}});
    cases.push_back({Embedding{70, 33}, {in}});
  }
  for (const Shape& in : {Shape{1, 1, 1}, Shape{3, 17, 5}, Shape{2, 130, 70}}) {
    cases.push_back({PositionEmbedding{}, {in}});
    cases.push_back({PositionEmbedding{200}, {in}});
    cases.push_back({LayerNorm{}, {in}});
  }
  cases.push_back({LayerNorm{1e-3f}, {{5, 77}}});
  add_elementwise(cases, CpuKernel::loop);
  return cases;
}

}  // namespace hetpipe::test
