// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/layer.h"

// The CPU device's layer kernels that are loops of its own; the others are in onednn.h.
namespace hetpipe {

std::unique_ptr<LayerKernel> make_loop_kernel(const Add&, const Shape& in, std::uint64_t key,
                                              int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const Flatten&, const Shape& in, std::uint64_t key,
                                              int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const Dropout& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const AlphaDropout& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const Shift& spec, const Shape& in, std::uint64_t key,
                                              int threads);
std::unique_ptr<LayerKernel> make_concat(const std::vector<Shape>& inputs, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const BatchNorm& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const MaxPool& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const AveragePool& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const GlobalAveragePool&, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const Embedding& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const PositionEmbedding& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const LayerNorm& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const RmsNorm& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const GroupNorm& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const SoftmaxCrossEntropy& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const Resize& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const AdaptivePool& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const RegressionLoss& spec, const Shape& in,
                                              std::uint64_t key, int threads);
std::unique_ptr<LayerKernel> make_loop_kernel(const OutputLoss& spec, const Shape& in,
                                              std::uint64_t key, int threads);

}  // namespace hetpipe
