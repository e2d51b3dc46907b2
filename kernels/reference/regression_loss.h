// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "base/error.h"
#include "kernels/layer.h"

// Losses of predictions x (N, count) with targets of the same shape. Sums run in double, in one
// order.
namespace hetpipe::reference {

template <class T>
T regression_loss(const RegressionLoss& l, T x, T target) {
  const T d = x - target, size = std::abs(d), beta = static_cast<T>(l.beta);
  switch (l.kind) {
    case RegressionLoss::Kind::squared:
      return d * d;
    case RegressionLoss::Kind::absolute:
      return size;
    case RegressionLoss::Kind::smooth_l1:
      return size < beta ? d * d / (2 * beta) : size - beta / 2;
    case RegressionLoss::Kind::binary_with_logits:
      return (x > 0 ? x : T{0}) - x * target + std::log1p(std::exp(-std::abs(x)));
  }
  return 0;
}

// By x.
template <class T>
T regression_gradient(const RegressionLoss& l, T x, T target) {
  const T d = x - target, sign = static_cast<T>((d > 0) - (d < 0));
  switch (l.kind) {
    case RegressionLoss::Kind::squared:
      return 2 * d;
    case RegressionLoss::Kind::absolute:
      return sign;
    case RegressionLoss::Kind::smooth_l1:
      return std::abs(d) < static_cast<T>(l.beta) ? d / static_cast<T>(l.beta) : sign;
    case RegressionLoss::Kind::binary_with_logits:
      return 1 / (1 + std::exp(-x)) - target;
  }
  return 0;
}

// One sample's.
template <class T>
T regression_loss_mean(const RegressionLoss& l, std::int64_t count, const T* x, const T* target) {
  double sum = 0;
  for (std::int64_t e = 0; e < count; ++e) {
    sum += static_cast<double>(regression_loss(l, x[e], target[e]));
  }
  return static_cast<T>(sum / static_cast<double>(count));
}

// dx of one sample, by the mean of loss_samples samples, times `scale`.
template <class T>
void regression_loss_backward(const RegressionLoss& l, std::int64_t count, const T* x,
                              const T* target, std::int64_t loss_samples, T* dx, float scale = 1) {
  ensure(loss_samples > 0, "the loss is a mean over no samples");
  const T denominator = static_cast<T>(loss_samples * count);
  for (std::int64_t e = 0; e < count; ++e) {
    dx[e] = regression_gradient(l, x[e], target[e]) / denominator * static_cast<T>(scale);
  }
}

}  // namespace hetpipe::reference
