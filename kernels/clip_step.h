// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element.h"

// The numbers of clipping by norm, computed in double and the same on every device.
namespace hetpipe {

// Squares of one block of Device::sum_of_squares, added in index order.
inline double squares_of_block(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(x[i]);
    sum += value * value;
  }
  return sum;
}

// What a vector whose parts have these sums of squares is multiplied by, so that its norm is at
// most max_norm: as PyTorch's clip_grad_norm_, max_norm / (norm + 1e-6) where that is below 1. The
// parts are added in order. A norm that is not a number leaves the vector alone.
HETPIPE_HOST_DEVICE inline float clip_factor(const double* squares, std::int64_t parts,
                                             double max_norm) {
  double sum = 0;
  for (std::int64_t i = 0; i < parts; ++i) sum += squares[i];
  const double factor = max_norm / (std::sqrt(sum) + 1e-6);
  return factor < 1 ? static_cast<float>(factor) : 1.0f;
}

}  // namespace hetpipe
