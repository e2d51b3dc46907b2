// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

// Batch normalisation (Ioffe & Szegedy 2015) of x (rows, channels): an image (N, H, W, C) has N*H*W
// rows. The batch is normalised with its biased variance; the running variance is the unbiased one,
// as PyTorch does. Sums run in double, in one order.
namespace hetpipe::reference {

template <class T>
void batch_statistics(std::int64_t rows, std::int64_t channels, const T* x, T* mean, T* variance) {
  for (std::int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(x[r * channels + c]);
    const double m = sum / static_cast<double>(rows);
    double squares = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double d = static_cast<double>(x[r * channels + c]) - m;
      squares += d * d;
    }
    mean[c] = static_cast<T>(m);
    variance[c] = static_cast<T>(squares / static_cast<double>(rows));
  }
}

// running = (1 - momentum)*running + momentum*batch. One row has no unbiased variance: the running
// one then stays.
template <class T>
void update_running_statistics(std::int64_t rows, std::int64_t channels, T momentum, const T* mean,
                               const T* variance, T* running_mean, T* running_variance) {
  for (std::int64_t c = 0; c < channels; ++c)
    running_mean[c] = (1 - momentum) * running_mean[c] + momentum * mean[c];
  if (rows == 1) return;
  const T unbiased = static_cast<T>(static_cast<double>(rows) / static_cast<double>(rows - 1));
  for (std::int64_t c = 0; c < channels; ++c)
    running_variance[c] =
        (1 - momentum) * running_variance[c] + momentum * (variance[c] * unbiased);
}

// Element i of a parameter, or what stands for all of it where a layer has none.
template <class T>
double element_or(const T* parameter, std::int64_t i, double otherwise) {
  return parameter != nullptr ? static_cast<double>(parameter[i]) : otherwise;
}

// y = (x - mean) / sqrt(variance + epsilon) * scale + shift; without scale and shift where they are
// null, here and below.
template <class T>
void batch_norm_forward(std::int64_t rows, std::int64_t channels, double epsilon, const T* x,
                        const T* mean, const T* variance, const T* scale, const T* shift, T* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < channels; ++c) {
      const double inverse = 1.0 / std::sqrt(static_cast<double>(variance[c]) + epsilon);
      const double d = static_cast<double>(x[r * channels + c]) - static_cast<double>(mean[c]);
      y[r * channels + c] =
          static_cast<T>(d * inverse * element_or(scale, c, 1) + element_or(shift, c, 0));
    }
}

// Gradients through the batch's own mean and variance; each of dx, dscale, dshift may be null.
// dx = scale/deviation * (dy - mean(dy) - normalised * mean(dy*normalised))
template <class T>
void batch_norm_backward(std::int64_t rows, std::int64_t channels, double epsilon, const T* x,
                         const T* mean, const T* variance, const T* scale, const T* dy, T* dx,
                         T* dscale, T* dshift) {
  for (std::int64_t c = 0; c < channels; ++c) {
    const double inverse = 1.0 / std::sqrt(static_cast<double>(variance[c]) + epsilon);
    const auto normalised = [&](std::int64_t r) {
      return (static_cast<double>(x[r * channels + c]) - static_cast<double>(mean[c])) * inverse;
    };
    double sum = 0;
    double products = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double gradient = static_cast<double>(dy[r * channels + c]);
      sum += gradient;
      products += gradient * normalised(r);
    }
    if (dscale != nullptr) dscale[c] = static_cast<T>(products);
    if (dshift != nullptr) dshift[c] = static_cast<T>(sum);
    if (dx == nullptr) continue;
    const double n = static_cast<double>(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      const double gradient = static_cast<double>(dy[r * channels + c]);
      dx[r * channels + c] = static_cast<T>(element_or(scale, c, 1) * inverse *
                                            (gradient - sum / n - normalised(r) * (products / n)));
    }
  }
}

}  // namespace hetpipe::reference
