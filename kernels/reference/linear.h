// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/layer.h"

// y = x·weight + bias: x (N, in), weight (in, out) or, transposed, (out, in), bias (out), y
// (N, out). Sums run in double, in one order. The bias gradient is that of convolution.h.
namespace hetpipe::reference {

struct LinearSizes {
  std::int64_t batch = 0;  // rows
  std::int64_t in = 0;
  std::int64_t out = 0;
  bool transposed = false;

  std::int64_t place(std::int64_t i, std::int64_t o) const {  // of weight (i, o)
    return transposed ? o * in + i : i * out + o;
  }
};
inline LinearSizes sizes_of(const Linear& l, const Shape& in) {
  const std::int64_t features = in[in.rank() - 1];
  return {in.elements() / features, features, l.output_features, l.transposed};
}

// bias may be null.
template <class T>
void linear_forward(const LinearSizes& s, const T* x, const T* weight, const T* bias, T* y) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t o = 0; o < s.out; ++o) {
      double sum = bias != nullptr ? static_cast<double>(bias[o]) : 0.0;
      for (std::int64_t i = 0; i < s.in; ++i)
        sum += static_cast<double>(x[n * s.in + i]) * static_cast<double>(weight[s.place(i, o)]);
      y[n * s.out + o] = static_cast<T>(sum);
    }
}

// dx = dy·weightᵀ
template <class T>
void linear_input_gradient(const LinearSizes& s, const T* dy, const T* weight, T* dx) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t i = 0; i < s.in; ++i) {
      double sum = 0;
      for (std::int64_t o = 0; o < s.out; ++o)
        sum += static_cast<double>(dy[n * s.out + o]) * static_cast<double>(weight[s.place(i, o)]);
      dx[n * s.in + i] = static_cast<T>(sum);
    }
}

// dweight = xᵀ·dy
template <class T>
void linear_weight_gradient(const LinearSizes& s, const T* x, const T* dy, T* dweight) {
  for (std::int64_t i = 0; i < s.in; ++i)
    for (std::int64_t o = 0; o < s.out; ++o) {
      double sum = 0;
      for (std::int64_t n = 0; n < s.batch; ++n)
        sum += static_cast<double>(x[n * s.in + i]) * static_cast<double>(dy[n * s.out + o]);
      dweight[s.place(i, o)] = static_cast<T>(sum);
    }
}

}  // namespace hetpipe::reference
