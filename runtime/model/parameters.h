// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/model/model.h"

namespace hetpipe {

// One parameter (or running statistic) inside a flat array of floats.
struct ParameterEntry {
  int layer = 0;
  int owner_layer = 0;  // another layer where that one's weight is shared: this is a copy of it
  std::string name;     // "conv1/weight", the owner's
  ParameterShape shape;
  std::int64_t offset = 0;  // in floats
  std::int64_t count = 0;
  // As a checkpoint states it: that of the shape, or of PyTorch's state_dict (`torch`).
  std::vector<std::int64_t> file_shape;
  bool torch = false;
  std::span<const float> given;  // its initial values, where the model has some
};

// How the parameters of layers [first, end) lie in one flat array: layer by layer, in the layer's
// own order, without gaps. A shared weight has an entry for its owner and one for every user, so
// that a stage has a copy whichever of them it holds.
class ParameterLayout {
 public:
  static ParameterLayout parameters(const Model& model, int first, int end);
  static ParameterLayout statistics(const Model& model, int first, int end);

  std::int64_t count() const { return count_; }  // floats
  const std::vector<ParameterEntry>& entries() const { return entries_; }
  // Entries of one layer; [offset, offset + count) of the whole layer is contiguous.
  std::span<const ParameterEntry> of_layer(int layer) const { return of_layers(layer, layer + 1); }
  std::span<const ParameterEntry> of_layers(int first, int end) const;  // contiguous as well

 private:
  static ParameterLayout make(const Model& model, int first, int end,
                              std::vector<ParameterShape> LayerShapes::*which);

  std::vector<ParameterEntry> entries_;
  std::int64_t count_ = 0;
  std::shared_ptr<const StateValues> initial_;  // what entries point to
};

// Initial values: each element drawn from (seed, parameter name, element), so they do not depend on
// the cut, and copies of a shared weight are equal. `values` holds layout.count() floats; running
// statistics are filled the same way.
void fill_initial(const ParameterLayout& layout, std::uint64_t seed, std::span<float> values);

// The key of a layer's own random draws (Device::make_kernel), the same under every cut.
std::uint64_t layer_key(const ModelLayer& layer, std::uint64_t seed);

}  // namespace hetpipe
