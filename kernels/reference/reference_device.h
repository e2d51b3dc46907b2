// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/device.h"

// The definition of every kernel as plain loops: slow, single-threaded, without any library. Other
// devices are tested against it, and it runs under the thread sanitizer.
namespace hetpipe {

std::unique_ptr<Device> make_reference_device();

// Layer kernels over the templates of this folder; they keep no memory of their own.
std::unique_ptr<LayerKernel> make_reference_kernel(const LayerSpec& spec,
                                                   const std::vector<Shape>& inputs,
                                                   std::uint64_t key);
// Those of the layers that language models are made of.
std::unique_ptr<LayerKernel> make_sequence_kernel(const Embedding& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const PositionEmbedding& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const LayerNorm& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const SelfAttention& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const Lstm& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_sequence_kernel(const SoftmaxCrossEntropy& spec, const Shape& in);
// Those that models from elsewhere bring.
std::unique_ptr<LayerKernel> make_image_kernel(const TransposedConvolution& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_image_kernel(const Resize& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_image_kernel(const AdaptivePool& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_image_kernel(const GroupNorm& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_image_kernel(const RmsNorm& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_image_kernel(const Recurrent& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_image_kernel(const RegressionLoss& spec, const Shape& in);
std::unique_ptr<LayerKernel> make_image_kernel(const OutputLoss& spec, const Shape& in);

// Those of kernels/algebra.h. (the reference of each is kernels/reference/algebra.h)
std::unique_ptr<LayerKernel> make_algebra_kernel(const LayerSpec& spec,
                                                 const std::vector<Shape>& inputs,
                                                 std::uint64_t key);

}  // namespace hetpipe
