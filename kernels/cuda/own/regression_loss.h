// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Losses of predictions x (N, count) of float, Bf16 or Fp16 with float targets, as
// kernels/reference/regression_loss.h defines them.
namespace hetpipe::cuda {

struct RegressionSizes {
  int kind = 0;  // RegressionLoss::Kind
  float beta = 1;
  std::int64_t batch = 0, count = 0;
};

// loss (N), float.
template <class T>
void regression_forward(const RegressionSizes& s, const T* x, const float* targets, float* loss,
                        On on);
// dx = gradient of each element's loss * factor.
template <class T>
void regression_backward(const RegressionSizes& s, const T* x, const float* targets, float factor,
                         T* dx, On on);

}  // namespace hetpipe::cuda
