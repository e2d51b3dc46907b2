// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/blas/layout.h"
#include "kernels/layer.h"

// A linear layer's three matrix products, over `rows` rows of `in` numbers: weight (in, out), or
// (out, in) where transposed.
namespace hetpipe::cuda {

// y (rows, out) = x (rows, in) · weight
inline Product linear_forward(const Linear& spec, std::int64_t rows, std::int64_t in) {
  return {
      .rows = rows, .columns = spec.output_features, .inner = in, .transposed_b = spec.transposed};
}

// dx (rows, in) = dy (rows, out) · weightᵀ
inline Product linear_input_gradient(const Linear& spec, std::int64_t rows, std::int64_t in) {
  return {
      .rows = rows, .columns = in, .inner = spec.output_features, .transposed_b = !spec.transposed};
}

// dweight (in, out) = xᵀ · dy, or, transposed, (out, in) = dyᵀ · x. The bias gradient is the sum of
// dy over the rows, which is what the product sums over: of B, or, transposed, of A.
inline Product linear_weight_gradient(const Linear& spec, std::int64_t rows, std::int64_t in) {
  const std::int64_t out = spec.output_features;
  return {.rows = spec.transposed ? out : in,
          .columns = spec.transposed ? in : out,
          .inner = rows,
          .transposed_a = true};
}

}  // namespace hetpipe::cuda
