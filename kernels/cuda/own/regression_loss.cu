// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/regression_loss.h"

#include <cmath>

#include "kernels/cuda/own/pack.h"
#include "kernels/cuda/own/reduce.h"

namespace hetpipe::cuda {
namespace {

constexpr int kLossThreads = 256;  // of a block, which has one sample
enum { kSquared, kAbsolute, kSmoothL1, kBinaryWithLogits };

HETPIPE_DEVICE float loss_of(int kind, float beta, float x, float target) {
  const float d = x - target, size = fabsf(d);
  if (kind == kSquared) return d * d;
  if (kind == kAbsolute) return size;
  if (kind == kSmoothL1) return size < beta ? d * d / (2 * beta) : size - beta / 2;
  return (x > 0 ? x : 0.0f) - x * target + log1pf(expf(-fabsf(x)));
}

HETPIPE_DEVICE float gradient_of(int kind, float beta, float x, float target) {
  const float d = x - target, sign = d > 0 ? 1.0f : d < 0 ? -1.0f : 0.0f;
  if (kind == kSquared) return 2 * d;
  if (kind == kAbsolute) return sign;
  if (kind == kSmoothL1) return fabsf(d) < beta ? d / beta : sign;
  return 1 / (1 + expf(-x)) - target;
}

template <class T>
HETPIPE_KERNEL void regression_kernel(RegressionSizes s, const T* x, const float* targets,
                                      float* loss) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * s.count;
  CompensatedSum sum;
  for (std::int64_t e = threadIdx.x; e < s.count; e += kLossThreads) {
    sum.add(loss_of(s.kind, s.beta, static_cast<float>(x[first + e]), targets[first + e]));
  }
  const float total = team_reduce<kLossThreads>(sum.sum, Plus{});
  if (threadIdx.x == 0) loss[blockIdx.x] = total / static_cast<float>(s.count);
}

template <class T>
struct RegressionGradient {
  RegressionSizes s;
  const T* x;
  const float* targets;
  float factor;
  T* dx;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    dx[i] = T(gradient_of(s.kind, s.beta, static_cast<float>(x[i]), targets[i]) * factor);
  }
};

}  // namespace

template <class T>
void regression_forward(const RegressionSizes& s, const T* x, const float* targets, float* loss,
                        On on) {
  launch(regression_kernel<T>, one_each(s.batch), kLossThreads, on, s, x, targets, loss);
}

template <class T>
void regression_backward(const RegressionSizes& s, const T* x, const float* targets, float factor,
                         T* dx, On on) {
  each<1>(RegressionGradient<T>{s, x, targets, factor, dx}, s.batch * s.count, on);
}

#define HETPIPE_REGRESSION(T)                                                                   \
  template void regression_forward(const RegressionSizes&, const T*, const float*, float*, On); \
  template void regression_backward(const RegressionSizes&, const T*, const float*, float, T*, On);
HETPIPE_REGRESSION(float)
HETPIPE_REGRESSION(Bf16)
HETPIPE_REGRESSION(Fp16)

}  // namespace hetpipe::cuda
