// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/in_place.h"

#include <algorithm>

namespace hetpipe {

bool forward_in_place(const Model& model, int layer, int first) {
  const LayerShapes shapes = model.shapes(layer, 1);
  const int input = model.layer(layer).inputs.front();
  if (!shapes.forward_in_place || shapes.backward_needs_input) return false;
  if (input == kSamples || input < first) return false;
  if (model.shapes(input, 1).backward_needs_output) return false;
  std::ptrdiff_t readers = 0;
  for (const ModelLayer& other : model.layers()) {
    readers += std::count(other.inputs.begin(), other.inputs.end(), input);
  }
  return readers == 1;
}

}  // namespace hetpipe
