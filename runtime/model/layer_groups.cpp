// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/layer_groups.h"

#include <algorithm>

#include "base/index.h"
#include "runtime/model/parameters.h"

namespace hetpipe {
namespace {

// Of each layer's output, one that reads it twice twice.
std::vector<std::vector<int>> readers_of(const Model& model) {
  std::vector<std::vector<int>> readers(at(model.layer_count()));
  for (int l = 0; l < model.layer_count(); ++l) {
    for (const int input : model.layer(l).inputs) {
      if (input != kSamples) readers[at(input)].push_back(l);
    }
  }
  return readers;
}

// As many of the layers [first, end) as could be one group.
std::vector<ChainedLayer> chain_from(const Model& model, int first, int end, std::int64_t samples,
                                     std::uint64_t seed,
                                     const std::vector<std::vector<int>>& readers) {
  std::vector<ChainedLayer> chain;
  for (int l = first; l < end; ++l) {
    if (l > first && readers[at(l - 1)] != std::vector<int>{l}) break;
    const ModelLayer& layer = model.layer(l);
    const auto before = std::find(layer.inputs.begin(), layer.inputs.end(), l - 1);
    chain.push_back(
        {.spec = layer.spec,
         .inputs = model.input_shapes(l, samples),
         .from_before = l > first ? static_cast<std::size_t>(before - layer.inputs.begin()) : 0,
         .key = layer_key(layer, seed)});
  }
  return chain;
}

LayerGroup make_group(const Model& model, int first, std::span<const ChainedLayer> longest,
                      Device& device) {
  LayerGroup group;
  std::span<const ChainedLayer> chain = longest;
  while (chain.size() > 1 && (group.kernel = device.fuse(chain)) == nullptr) {
    chain = chain.first(chain.size() - 1);
  }
  if (group.kernel == nullptr) {
    group.kernel = device.make_kernel(chain[0].spec, chain[0].inputs, chain[0].key);
  }
  group.first = first;
  group.end = first + static_cast<int>(chain.size());
  const bool single = chain.size() == 1;
  group.shapes = single ? infer_shapes(chain[0].spec, chain[0].inputs) : infer_shapes(chain);
  group.kernel->adjust(group.shapes);
  for (const ChainInput& input : outside_inputs(chain)) {
    const ChainedLayer& reader = chain[input.layer];
    group.inputs.push_back(model.layer(first + static_cast<int>(input.layer)).inputs[input.input]);
    group.read_in_backward.push_back(
        single ? reads_in_backward(group.shapes, input.input)
               : group.shapes.backward_needs_input &&
                     reads_in_backward(infer_shapes(reader.spec, reader.inputs), input.input));
  }
  return group;
}

bool writes_in_place(const LayerGroup& group, int first_of_stage,
                     const std::vector<LayerGroup>& groups,
                     const std::vector<std::vector<int>>& readers) {
  const std::size_t i = group.shapes.in_place_input;
  if (!group.shapes.forward_in_place || group.read_in_backward[i]) return false;
  const int input = group.inputs[i];
  if (input == kSamples || input < first_of_stage || readers[at(input)].size() > 1) return false;
  const auto producer = std::find_if(
      groups.begin(), groups.end(), [&](const LayerGroup& other) { return other.last() == input; });
  return !producer->shapes.backward_needs_output;
}

}  // namespace

std::vector<LayerGroup> make_groups(const Model& model, int first, int end, std::int64_t samples,
                                    std::uint64_t seed, Device& device) {
  const auto readers = readers_of(model);
  std::vector<LayerGroup> groups;
  for (int l = first; l < end; l = groups.back().end) {
    groups.push_back(
        make_group(model, l, chain_from(model, l, end, samples, seed, readers), device));
  }
  for (LayerGroup& group : groups) {
    if (writes_in_place(group, first, groups, readers)) {
      group.in_place = group.shapes.in_place_input;
    }
  }
  return groups;
}

}  // namespace hetpipe
