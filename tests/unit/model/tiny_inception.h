// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/model/model.h"

namespace hetpipe {

// Layers that meet in concatenations, one of which reads a layer twice; windows that are not
// square, a mean of the image alone, a shift, SELU and alpha dropout.
inline Model tiny_inception() {
  Model m("tiny-inception", {5, 6, 2}, 3);
  const int x = m.add("stem", Convolution{.output_channels = 4, .padding = 1});
  const int row =
      m.add("row", Convolution{.output_channels = 3, .kernel = {1, 3}, .padding = {0, 1}});
  const int column =
      m.add("column", Convolution{.output_channels = 2, .kernel = {3, 1}, .padding = {1, 0}});
  const int mean =
      m.add("mean", AveragePool{.kernel = 3, .stride = 1, .padding = 1, .count_padding = false});
  const int y = m.add("concat1", Concat{}, {row, x, column, mean, x});
  const int z = m.add("bn", BatchNorm{.epsilon = 1e-3f});
  const int even =
      m.add("even", Convolution{.output_channels = 3, .kernel = 1, .stride = 2, .bias = false});
  const int shifted = m.add("shift", Shift{}, {z});
  const int odd = m.add(
      "odd", Convolution{.output_channels = 3, .kernel = 1, .stride = 2, .bias = false}, {shifted});
  const int pool = m.add("pool", MaxPool{.kernel = {1, 2}, .stride = 2}, {y});
  m.add("concat2", Concat{}, {even, odd, pool});
  m.add("flatten", Flatten{});
  m.add("linear1", Linear{.output_features = 8, .deviation = 0.1f});
  m.add("selu", Selu{});
  m.add("dropout", AlphaDropout{0.2f});
  m.add("linear2", Linear{3});
  m.add("loss", SoftmaxCrossEntropy{});
  return m;
}

}  // namespace hetpipe
