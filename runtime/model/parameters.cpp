// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/parameters.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/random.h"
#include "runtime/model/state_names.h"

namespace hetpipe {

namespace {

std::vector<std::int64_t> extents_of(const Shape& shape) {
  std::vector<std::int64_t> extents;
  for (int i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

// "features.0.weight" as "features.0/weight": layer and parameter, as of every model.
std::string file_name(const std::string& state) {
  const std::size_t dot = state.rfind('.');
  return dot == std::string::npos ? state : state.substr(0, dot) + "/" + state.substr(dot + 1);
}

void take_state(const StateTensor& state, const Model& model, ParameterEntry& entry) {
  entry.name = file_name(state.name);
  entry.file_shape = state.shape;
  entry.torch = true;
  entry.frozen = state.frozen;
  if (model.initial() == nullptr) return;
  entry.given = model.initial()->of(state.name);
  ensure(static_cast<std::int64_t>(entry.given.size()) == entry.count,
         "initial values have the parameter's size");
}

}  // namespace

ParameterLayout ParameterLayout::parameters(const Model& model, int first, int end) {
  return make(model, first, end, &LayerShapes::parameters);
}

ParameterLayout ParameterLayout::statistics(const Model& model, int first, int end) {
  return make(model, first, end, &LayerShapes::statistics);
}

ParameterLayout ParameterLayout::make(const Model& model, int first, int end,
                                      std::vector<ParameterShape> LayerShapes::*which) {
  ensure(0 <= first && first <= end && end <= model.layer_count(), "layers [first, end) exist");
  ParameterLayout layout;
  layout.initial_ = model.initial();
  for (int i = first; i < end; ++i) {
    const ModelLayer& layer = model.layer(i);
    const LayerShapes shapes = model.shapes(i, 1);
    // The layer's state: of its parameters, then of its statistics.
    std::size_t place = which == &LayerShapes::statistics ? shapes.parameters.size() : 0;
    for (const ParameterShape& p : shapes.*which) {
      ParameterEntry entry{.layer = i,
                           .owner_layer = i,
                           .name = layer.name + "/" + p.name,
                           .shape = p,
                           .offset = layout.count_,
                           .count = p.shape.elements(),
                           .file_shape = extents_of(p.shape),
                           .torch = false,
                           .frozen = false,
                           .given = {}};
      if (!layer.state.empty()) {
        take_state(layer.state[place++], model, entry);
      } else if (model.initial() != nullptr) {
        entry.given = model.initial()->of_entry(entry.name);
      }
      entry.frozen |= layer.frozen;
      entry.inputs_first = order_of(layer.spec, p.shape) == kInOut &&
                           (layer.state.empty() || std::holds_alternative<Linear>(layer.spec));
      if (const SharedParameter* const shared = shared_parameter(layer, p)) {
        entry.owner_layer = shared->owner;
        entry.offset = layout.use_count_;
        const LayerShapes owner = model.shapes(entry.owner_layer, 1);
        entry.shape =
            *std::ranges::find(owner.parameters, shared->owner_name, &ParameterShape::name);
        if (layer.state.empty()) {
          entry.name = model.layer(entry.owner_layer).name + "/" + shared->owner_name;
        }
        layout.use_count_ += entry.count;
        if (entry.owner_layer < first &&
            std::ranges::find(layout.foreign_, entry.name, &ForeignParameter::name) ==
                layout.foreign_.end()) {
          layout.foreign_.push_back(
              {entry.owner_layer, entry.name, layout.foreign_count_, entry.count});
          layout.foreign_count_ += entry.count;
        }
      } else {
        layout.count_ += entry.count;
      }
      layout.entries_.push_back(std::move(entry));
    }
  }
  return layout;
}

std::int64_t ParameterLayout::owner_offset(const ParameterEntry& use) const {
  for (const ParameterEntry& entry : of_layer(use.owner_layer)) {
    if (entry.is_own() && entry.name == use.name) return entry.offset;
  }
  return -1;
}

std::int64_t ParameterLayout::foreign_offset(const ParameterEntry& use) const {
  const auto found = std::ranges::find(foreign_, use.name, &ForeignParameter::name);
  ensure(found != foreign_.end(), "a parameter of an earlier part of the model");
  return found->offset;
}

std::span<const ParameterEntry> ParameterLayout::of_layers(int first, int end) const {
  return {std::ranges::lower_bound(entries_, first, {}, &ParameterEntry::layer),
          std::ranges::lower_bound(entries_, end, {}, &ParameterEntry::layer)};
}

void fill_initial(const ParameterLayout& layout, std::uint64_t seed, std::span<float> values) {
  ensure(static_cast<std::int64_t>(values.size()) == layout.count(),
         "the values have the layout's size");
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const std::span<float> own = values.subspan(static_cast<std::size_t>(entry.offset),
                                                static_cast<std::size_t>(entry.count));
    if (!entry.given.empty()) {
      std::ranges::copy(entry.given, own.begin());
      continue;
    }
    const Initial initial = entry.shape.initial;
    if (initial == Initial::zero || initial == Initial::one) {
      std::ranges::fill(own, initial == Initial::one ? 1.0f : 0.0f);
      continue;
    }
    const std::uint64_t key = random_key({seed, hash_text(entry.name)});
    for (std::size_t e = 0; e < own.size(); ++e) {
      own[e] = entry.shape.bound * (initial == Initial::normal ? random_normal(key, e)
                                                               : 2 * random_uniform(key, e) - 1);
    }
  }
}

std::uint64_t layer_key(const ModelLayer& layer, std::uint64_t seed) {
  return random_key({seed, hash_text(layer.name)});
}

}  // namespace hetpipe
