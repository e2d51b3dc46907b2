// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/model/model.h"

namespace hetpipe {

// A parameter (or running statistic) of a layer: its own, in a flat array of floats, or another
// layer's, which it uses (tied weights).
struct ParameterEntry {
  int layer = 0;
  int owner_layer = 0;  // another layer where this one uses a parameter of it
  std::string name;     // "conv1/weight", the owner's
  ParameterShape shape;
  std::int64_t offset = 0;  // in floats, in the array of own parameters, or in that of uses
  std::int64_t count = 0;
  // As a checkpoint states it: that of the shape, or of PyTorch's state_dict (`torch`).
  std::vector<std::int64_t> file_shape;
  bool torch = false;
  bool frozen = false;           // training does not change it
  std::span<const float> given;  // its initial values, where the model has some
  bool inputs_first = false;     // a matrix in the order (in, out)
  bool is_own() const { return owner_layer == layer; }
};

// A parameter that layers of a part of the model use, and whose owner is before that part.
struct ForeignParameter {
  int owner_layer = 0;
  std::string name;
  std::int64_t offset = 0;  // in the array of foreign ones
  std::int64_t count = 0;
};

// How the parameters of layers [first, end) lie in flat arrays: layer by layer, in the layer's own
// order, without gaps. There are three:
//   * own parameters, each in the part of the model that holds its owner: weights, gradients and
//     optimizer state are arrays like this;
//   * uses: one for each layer that uses another one's parameter. Its part of the gradient lies
//     there until all parts are added up;
//   * foreign parameters, each once: weights that come from the part that holds their owner. A use
//     of a parameter that is owned here reads that one.
class ParameterLayout {
 public:
  static ParameterLayout parameters(const Model& model, int first, int end);
  static ParameterLayout statistics(const Model& model, int first, int end);

  std::int64_t count() const { return count_; }          // floats of own parameters
  std::int64_t use_count() const { return use_count_; }  // of uses
  std::int64_t foreign_count() const { return foreign_count_; }
  // Own parameters and uses.
  const std::vector<ParameterEntry>& entries() const { return entries_; }
  const std::vector<ForeignParameter>& foreign() const { return foreign_; }
  // Entries of one layer; its own are contiguous in their array, and its uses in theirs.
  std::span<const ParameterEntry> of_layer(int layer) const { return of_layers(layer, layer + 1); }
  std::span<const ParameterEntry> of_layers(int first, int end) const;  // contiguous as well

  // Where an entry's weights lie, given the arrays of own and of foreign parameters.
  template <class T>
  T* weight_of(const ParameterEntry& entry, T* own, T* foreign) const {
    if (entry.is_own()) return own + entry.offset;
    const std::int64_t here = owner_offset(entry);
    return here >= 0 ? own + here : foreign + foreign_offset(entry);
  }
  // In the array of own parameters; -1 where the owner is not of this part.
  std::int64_t owner_offset(const ParameterEntry& use) const;
  std::int64_t foreign_offset(const ParameterEntry& use) const;

 private:
  static ParameterLayout make(const Model& model, int first, int end,
                              std::vector<ParameterShape> LayerShapes::*which);

  std::vector<ParameterEntry> entries_;
  std::vector<ForeignParameter> foreign_;
  std::int64_t count_ = 0;
  std::shared_ptr<const StateValues> initial_;  // what entries point to
  std::int64_t use_count_ = 0;
  std::int64_t foreign_count_ = 0;
};

// Initial values: each element drawn from (seed, parameter name, element), so they do not depend on
// the cut. `values` holds layout.count() floats; running statistics are filled the same way.
void fill_initial(const ParameterLayout& layout, std::uint64_t seed, std::span<float> values);

// The key of a layer's own random draws (Device::make_kernel), the same under every cut.
std::uint64_t layer_key(const ModelLayer& layer, std::uint64_t seed);

}  // namespace hetpipe
