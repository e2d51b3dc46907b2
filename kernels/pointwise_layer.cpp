// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise_layer.h"

#include <set>

namespace hetpipe {
namespace pointwise_layer {

// How many of the layer's inputs a derivative reads.
std::size_t inputs_read(const Pointwise& layer, const std::vector<bool>& reads) {
  std::set<int> inputs;
  for (std::size_t o = 0; o < layer.operands.size(); ++o) {
    if (reads[o] && layer.operands[o].source == Source::input)
      inputs.insert(layer.operands[o].index);
  }
  return inputs.size();
}

}  // namespace pointwise_layer

ExpressionGradient gradient_of(const Pointwise& layer) {
  const std::size_t count = layer.operands.size();
  std::vector<bool> wanted(count);
  for (std::size_t o = 0; o < count; ++o) wanted[o] = layer.operands[o].source != Source::constant;
  ExpressionGradient plain = gradient_of(layer.expression, wanted, false);
  ExpressionGradient short_cut = gradient_of(layer.expression, wanted, true);
  const bool fewer = pointwise_layer::inputs_read(layer, short_cut.reads(count)) <
                     pointwise_layer::inputs_read(layer, plain.reads(count));
  return fewer ? short_cut : plain;
}

BackwardNeeds backward_needs(const Pointwise& layer) {
  const std::size_t count = layer.operands.size();
  std::vector<bool> reads = gradient_of(layer).reads(count);
  const bool output = reads[count + 1];
  reads.resize(count);
  return {reads, output};
}

}  // namespace hetpipe
