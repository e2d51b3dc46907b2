// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/reference/batch_norm.h"

// Layer normalisation (Ba et al. 2016) of x (rows, features), each row by itself, with its biased
// variance. Sums run in double, in one order. scale and shift may be null.
namespace hetpipe::reference {

// y = (x - mean) / sqrt(variance + epsilon) * scale + shift of one row; its mean and variance.
template <class T>
void layer_norm_row(std::int64_t features, double epsilon, const T* x, const T* scale,
                    const T* shift, T* y, T& mean, T& variance) {
  double sum = 0;
  for (std::int64_t f = 0; f < features; ++f) sum += static_cast<double>(x[f]);
  mean = static_cast<T>(sum / static_cast<double>(features));
  const double m = static_cast<double>(mean);
  double squares = 0;
  for (std::int64_t f = 0; f < features; ++f) {
    const double d = static_cast<double>(x[f]) - m;
    squares += d * d;
  }
  variance = static_cast<T>(squares / static_cast<double>(features));
  const double inverse = 1.0 / std::sqrt(static_cast<double>(variance) + epsilon);
  for (std::int64_t f = 0; f < features; ++f) {
    const double normalised = (static_cast<double>(x[f]) - m) * inverse;
    y[f] = static_cast<T>(normalised * element_or(scale, f, 1) + element_or(shift, f, 0));
  }
}

// dx of one row, which may be dy itself: with g = dy*scale,
// dx = 1/deviation * (g - mean(g) - normalised * mean(g*normalised))
template <class T>
void layer_norm_row_gradient(std::int64_t features, double epsilon, const T* x, T mean, T variance,
                             const T* scale, const T* dy, T* dx) {
  const double m = static_cast<double>(mean);
  const double inverse = 1.0 / std::sqrt(static_cast<double>(variance) + epsilon);
  double sum = 0, products = 0;
  for (std::int64_t f = 0; f < features; ++f) {
    const double g = static_cast<double>(dy[f]) * element_or(scale, f, 1);
    sum += g;
    products += g * ((static_cast<double>(x[f]) - m) * inverse);
  }
  sum /= static_cast<double>(features);
  products /= static_cast<double>(features);
  for (std::int64_t f = 0; f < features; ++f) {
    const double g = static_cast<double>(dy[f]) * element_or(scale, f, 1);
    const double normalised = (static_cast<double>(x[f]) - m) * inverse;
    dx[f] = static_cast<T>(inverse * (g - sum - normalised * products));
  }
}

// Features [first, end) of dscale and dshift, summed over the rows; either may be null.
template <class T>
void layer_norm_parameter_gradients(std::int64_t rows, std::int64_t features, double epsilon,
                                    std::int64_t first, std::int64_t end, const T* x, const T* mean,
                                    const T* variance, const T* dy, T* dscale, T* dshift) {
  constexpr std::int64_t kTogether = 32;  // features whose sums go down the rows side by side
  for (std::int64_t block = first; block < end; block += kTogether) {
    const std::int64_t count = block + kTogether < end ? kTogether : end - block;
    double products[kTogether] = {}, sums[kTogether] = {};
    for (std::int64_t r = 0; r < rows; ++r) {
      const double m = static_cast<double>(mean[r]);
      const double inverse = 1.0 / std::sqrt(static_cast<double>(variance[r]) + epsilon);
      const std::int64_t at = r * features + block;
      for (std::int64_t k = 0; k < count; ++k) {
        const double gradient = static_cast<double>(dy[at + k]);
        sums[k] += gradient;
        products[k] += gradient * ((static_cast<double>(x[at + k]) - m) * inverse);
      }
    }
    for (std::int64_t k = 0; k < count; ++k) {
      if (dscale != nullptr) dscale[block + k] = static_cast<T>(products[k]);
      if (dshift != nullptr) dshift[block + k] = static_cast<T>(sums[k]);
    }
  }
}

}  // namespace hetpipe::reference
