// SPDX-License-Identifier: Apache-2.0
#include "kernels/chain.h"

namespace hetpipe {

std::string to_string(std::span<const ChainedLayer> chain) {
  std::string text;
  for (const ChainedLayer& layer : chain) {
    text += (text.empty() ? "" : ", ") + to_string(layer.spec);
  }
  return text;
}

std::vector<ChainInput> outside_inputs(std::span<const ChainedLayer> chain) {
  std::vector<ChainInput> inputs;
  for (std::size_t l = 0; l < chain.size(); ++l) {
    for (std::size_t i = 0; i < chain[l].inputs.size(); ++i) {
      if (l == 0 || i != chain[l].from_before) inputs.push_back({l, i});
    }
  }
  return inputs;
}

LayerShapes infer_shapes(std::span<const ChainedLayer> chain) {
  LayerShapes all;
  for (const ChainedLayer& layer : chain) {
    const LayerShapes one = infer_shapes(layer.spec, layer.inputs);
    all.output = one.output;
    all.parameters.insert(all.parameters.end(), one.parameters.begin(), one.parameters.end());
    all.statistics.insert(all.statistics.end(), one.statistics.begin(), one.statistics.end());
    all.stash_bytes += one.stash_bytes;
    all.forward_flops += one.forward_flops;
    all.backward_flops += one.backward_flops;
    all.backward_needs_input |= one.backward_needs_input;
    all.backward_needs_output = one.backward_needs_output;
  }
  return all;
}

}  // namespace hetpipe
