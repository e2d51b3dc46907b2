// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <tuple>
#include <vector>

#include "tests/unit/kernels/layer_run.h"

// Every layer type on the shapes that show mistakes, for comparisons of devices.
namespace hetpipe::test {

// Layers whose sums other devices form in other ways.
std::vector<LayerCase> summing_cases();
// Layers that the CPU device computes with the reference's bits.
std::vector<LayerCase> exact_cases();

// visit(Layer{}) for every row of the table of elementwise layers (kernels/elementwise.h).
template <class Visit>
void for_each_elementwise(const Visit& visit) {
  std::apply([&]<class... Layers>(const ElementwiseRow<Layers>&...) { (visit(Layers{}), ...); },
             kElementwise);
}
inline std::vector<LayerCase> elementwise_cases(const Shape& in) {
  std::vector<LayerCase> cases;
  for_each_elementwise([&](const auto& layer) { cases.push_back({layer, {in}}); });
  return cases;
}

}  // namespace hetpipe::test
