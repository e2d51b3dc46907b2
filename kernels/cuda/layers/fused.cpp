// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/layers.h"

namespace hetpipe::cuda {
namespace {

template <class Spec>
const Spec* layer(std::span<const ChainedLayer> chain, std::size_t i) {
  return i < chain.size() ? std::get_if<Spec>(&chain[i].spec) : nullptr;
}

LayerMaker fuse_norm(LayerContext& context, std::span<const ChainedLayer> chain) {
  NormTail tail;
  tail.residual = layer<Add>(chain, 1) != nullptr;
  tail.relu = layer<Relu>(chain, tail.residual ? 2 : 1) != nullptr;
  const std::size_t layers = 1 + std::size_t{tail.residual} + std::size_t{tail.relu};
  if (chain.size() != layers) return nullptr;
  return make_batch_norm(context, *layer<BatchNorm>(chain, 0), tail, chain[0].inputs[0]);
}

}  // namespace

LayerMaker fuse_layers(LayerContext& context, std::span<const ChainedLayer> chain) {
  if (layer<BatchNorm>(chain, 0) != nullptr) return fuse_norm(context, chain);
  if (chain.size() != 2) return nullptr;
  const Shape& in = chain[0].inputs[0];
  if (layer<Gelu>(chain, 1) != nullptr) {
    const auto* linear = layer<Linear>(chain, 0);
    return linear != nullptr ? make_linear_gelu(context, *linear, in) : nullptr;
  }
  if (const auto* dropout = layer<Dropout>(chain, 0); dropout && layer<Add>(chain, 1)) {
    return make_dropout_add(context, *dropout, in, chain[0].key);
  }
  if (layer<Relu>(chain, 1) == nullptr) return nullptr;
  if (layer<Add>(chain, 0) != nullptr) return make_add_relu(context, in);
  if (const auto* convolution = layer<Convolution>(chain, 0)) {
    return make_convolution_relu(context, *convolution, in);
  }
  return nullptr;
}

}  // namespace hetpipe::cuda
