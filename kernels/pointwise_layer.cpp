// SPDX-License-Identifier: Apache-2.0
#include "kernels/pointwise_layer.h"

#include <algorithm>
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

Pointwise merged(const Pointwise& layer) {
  Pointwise result = layer;
  result.operands.clear();
  std::vector<std::int16_t> numbers;
  for (const Operand& o : layer.operands) {
    const auto found = std::find(result.operands.begin(), result.operands.end(), o);
    numbers.push_back(static_cast<std::int16_t>(found - result.operands.begin()));
    if (found == result.operands.end()) result.operands.push_back(o);
  }
  for (Expression::Step& step : result.expression.steps) {
    if (step.kind == Expression::Kind::variable) {
      step.variable = numbers[static_cast<std::size_t>(step.variable)];
    }
  }
  result.expression = simplified(result.expression);
  return result;
}

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
  const Pointwise once = merged(layer);
  const std::size_t count = once.operands.size();
  const std::vector<bool> reads = gradient_of(once).reads(count);
  BackwardNeeds needs;
  needs.output = reads[count + 1];
  for (const Operand& o : layer.operands) {
    const auto found = std::find(once.operands.begin(), once.operands.end(), o);
    needs.operands.push_back(reads[static_cast<std::size_t>(found - once.operands.begin())]);
  }
  return needs;
}

}  // namespace hetpipe
