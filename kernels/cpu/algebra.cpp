// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/algebra.h"

#include "base/error.h"

namespace hetpipe {

std::unique_ptr<LayerKernel> make_algebra(CpuContext& context, const LayerSpec& spec,
                                          const std::vector<Shape>& inputs, std::uint64_t key) {
  const int threads = context.threads;
  if (const auto* p = std::get_if<Pointwise>(&spec)) return make_pointwise(*p, inputs, threads);
  if (const auto* m = std::get_if<Move>(&spec)) return make_move(*m, inputs, threads);
  if (const auto* r = std::get_if<Reduce>(&spec)) return make_reduce(*r, inputs[0], threads);
  if (const auto* p = std::get_if<Product>(&spec)) return make_product(context, *p, inputs);
  if (const auto* s = std::get_if<Softmax>(&spec)) return make_softmax(*s, inputs[0], threads);
  if (const auto* a = std::get_if<Attention>(&spec)) {
    return make_strided_attention(context, *a, inputs, key);
  }
  ensure(std::holds_alternative<CumulativeSum>(spec), "a layer of the algebra");
  return make_cumulative_sum(inputs[0], threads);
}

}  // namespace hetpipe
