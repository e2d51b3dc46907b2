// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

// The tanh form of GELU (Hendrycks & Gimpel 2016), computed in double.
namespace hetpipe::reference {

inline constexpr double kGeluCubic = 0.044715;
inline constexpr double kGeluFactor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

template <class T>
void gelu_forward(std::int64_t count, const T* x, T* y) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = static_cast<double>(x[i]);
    const double t = std::tanh(kGeluFactor * (v + kGeluCubic * v * v * v));
    y[i] = static_cast<T>(0.5 * v * (1 + t));
  }
}

// dx may be dy.
template <class T>
void gelu_backward(std::int64_t count, const T* x, const T* dy, T* dx) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double v = static_cast<double>(x[i]);
    const double t = std::tanh(kGeluFactor * (v + kGeluCubic * v * v * v));
    const double inner = kGeluFactor * (1 + 3 * kGeluCubic * v * v);
    dx[i] = static_cast<T>(static_cast<double>(dy[i]) *
                           (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * inner));
  }
}

}  // namespace hetpipe::reference
