// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/algebra.h"

#include "kernels/reference/reference_device.h"

namespace hetpipe {

std::unique_ptr<LayerKernel> make_algebra(CpuContext& context, const LayerSpec& spec,
                                          const std::vector<Shape>& inputs, std::uint64_t key) {
  if (const auto* p = std::get_if<Pointwise>(&spec)) {
    return make_pointwise(*p, inputs, context.threads);
  }
  if (const auto* m = std::get_if<Move>(&spec)) return make_move(*m, inputs, context.threads);
  if (const auto* r = std::get_if<Reduce>(&spec)) {
    return make_reduce(*r, inputs[0], context.threads);
  }
  if (const auto* s = std::get_if<Softmax>(&spec)) {
    return make_softmax(*s, inputs[0], context.threads);
  }
  if (std::holds_alternative<CumulativeSum>(spec)) {
    return make_cumulative_sum(inputs[0], context.threads);
  }
  return make_algebra_kernel(spec, inputs, key);
}

}  // namespace hetpipe
