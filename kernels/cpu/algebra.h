// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "kernels/cpu/onednn.h"
#include "kernels/layer.h"

// The CPU device's kernels of kernels/algebra.h.
namespace hetpipe {

std::unique_ptr<LayerKernel> make_pointwise(const Pointwise& spec, const std::vector<Shape>& inputs,
                                            int threads);
std::unique_ptr<LayerKernel> make_move(const Move& spec, const std::vector<Shape>& inputs,
                                       int threads);
std::unique_ptr<LayerKernel> make_reduce(const Reduce& spec, const Shape& in, int threads);
std::unique_ptr<LayerKernel> make_softmax(const Softmax& spec, const Shape& in, int threads);
std::unique_ptr<LayerKernel> make_cumulative_sum(const Shape& in, int threads);
std::unique_ptr<LayerKernel> make_strided_attention(CpuContext& context, const Attention& spec,
                                                    const std::vector<Shape>& inputs,
                                                    std::uint64_t key);
std::unique_ptr<LayerKernel> make_product(CpuContext& context, const Product& spec,
                                          const std::vector<Shape>& inputs);

}  // namespace hetpipe
