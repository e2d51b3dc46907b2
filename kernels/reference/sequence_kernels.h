// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/layer.h"

// The reference device's kernels of the layers that language models are made of.
namespace hetpipe {

std::unique_ptr<LayerKernel> make_sequence_kernel(const Embedding& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const PositionEmbedding& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const LayerNorm& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const SelfAttention& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const Lstm& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const SoftmaxCrossEntropy& spec, const Shape& in);

}  // namespace hetpipe
