// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/layer.h"

// Layers in a row, for a device that computes several in one operation (Device::fuse). Each
// but the last gives its output only to the next layer.
namespace hetpipe {

struct ChainedLayer {
  LayerSpec spec;
  std::vector<Shape> inputs;
  std::size_t from_before = 0;  // which of them is the output of the layer before; not of the first
  std::uint64_t key = 0;        // of the layer's random draws
};
std::string to_string(std::span<const ChainedLayer> chain);  // "batch norm, add, relu"

// What a chain takes from outside, in order: the inputs of the first layer, then of each layer
// behind it the others.
struct ChainInput {
  std::size_t layer = 0;  // of the chain
  std::size_t input = 0;  // of that layer
};
std::vector<ChainInput> outside_inputs(std::span<const ChainedLayer> chain);

// Of the chain as one layer: the parameters and statistics of all its layers in order. What is said
// of the backward is what holds for the layers one by one: it needs the last one's output where
// that layer does, and of the inputs from outside those whose layers do. Nothing is in place. As
// of a layer, the kernel's adjust() says what else holds.
LayerShapes infer_shapes(std::span<const ChainedLayer> chain);

}  // namespace hetpipe
