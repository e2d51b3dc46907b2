// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/reference/batch_norm.h"

// Group normalisation (Wu & He 2018) of x (N, pixels, channels), and RMS normalisation (Zhang &
// Sennrich 2019) of rows. Sums run in double, in one order. scale and shift may be null.
namespace hetpipe::reference {

struct GroupNormSizes {
  std::int64_t batch, pixels, channels, groups;

  std::int64_t width() const { return channels / groups; }
  std::int64_t count() const { return pixels * width(); }
  // visit(element, channel) of group g of sample n, pixel by pixel.
  template <class Visit>
  void each(std::int64_t n, std::int64_t g, Visit visit) const {
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = g * width(); c < (g + 1) * width(); ++c)
        visit((n * pixels + p) * channels + c, c);
  }
};

// mean, variance (N, groups)
template <class T>
void group_norm_forward(const GroupNormSizes& s, double epsilon, const T* x, const T* scale,
                        const T* shift, T* y, T* mean, T* variance) {
  for (std::int64_t n = 0; n < s.batch; ++n)
    for (std::int64_t g = 0; g < s.groups; ++g) {
      double sum = 0, squares = 0;
      s.each(n, g, [&](std::int64_t e, std::int64_t) { sum += static_cast<double>(x[e]); });
      const double m = sum / static_cast<double>(s.count());
      s.each(n, g, [&](std::int64_t e, std::int64_t) {
        const double d = static_cast<double>(x[e]) - m;
        squares += d * d;
      });
      const double v = squares / static_cast<double>(s.count());
      const double inverse = 1.0 / std::sqrt(v + epsilon);
      s.each(n, g, [&](std::int64_t e, std::int64_t c) {
        y[e] = static_cast<T>((static_cast<double>(x[e]) - m) * inverse * element_or(scale, c, 1) +
                              element_or(shift, c, 0));
      });
      mean[n * s.groups + g] = static_cast<T>(m);
      variance[n * s.groups + g] = static_cast<T>(v);
    }
}

// With g = dy*scale: dx = 1/deviation * (g - mean(g) - normalised * mean(g*normalised)), which may
// be dy itself; dscale, dshift (channels). Each may be null.
template <class T>
void group_norm_backward(const GroupNormSizes& s, double epsilon, const T* x, const T* mean,
                         const T* variance, const T* scale, const T* dy, T* dx, T* dscale,
                         T* dshift) {
  const auto inverse = [&](std::int64_t group) {
    return 1.0 / std::sqrt(static_cast<double>(variance[group]) + epsilon);
  };
  const auto normalised = [&](std::int64_t e, std::int64_t group) {
    return (static_cast<double>(x[e]) - static_cast<double>(mean[group])) * inverse(group);
  };
  for (std::int64_t c = 0; c < s.channels; ++c) {
    double products = 0, sum = 0;
    for (std::int64_t r = 0; r < s.batch * s.pixels; ++r) {
      const double gradient = static_cast<double>(dy[r * s.channels + c]);
      products +=
          gradient * normalised(r * s.channels + c, r / s.pixels * s.groups + c / s.width());
      sum += gradient;
    }
    if (dscale != nullptr) dscale[c] = static_cast<T>(products);
    if (dshift != nullptr) dshift[c] = static_cast<T>(sum);
  }
  for (std::int64_t group = 0; dx != nullptr && group < s.batch * s.groups; ++group) {
    const std::int64_t n = group / s.groups, g = group % s.groups;
    double sum = 0, products = 0;
    s.each(n, g, [&](std::int64_t e, std::int64_t c) {
      const double gradient = static_cast<double>(dy[e]) * element_or(scale, c, 1);
      sum += gradient;
      products += gradient * normalised(e, group);
    });
    sum /= static_cast<double>(s.count());
    products /= static_cast<double>(s.count());
    s.each(n, g, [&](std::int64_t e, std::int64_t c) {
      const double gradient = static_cast<double>(dy[e]) * element_or(scale, c, 1);
      dx[e] = static_cast<T>(inverse(group) * (gradient - sum - normalised(e, group) * products));
    });
  }
}

// What x / rms is multiplied by.
template <class T>
double rms_factor(const T* scale, bool one_plus, std::int64_t f) {
  return scale == nullptr ? 1 : static_cast<double>(scale[f]) + (one_plus ? 1 : 0);
}

// y = x / sqrt(mean(x^2) + epsilon) * factor of one row; returns mean(x^2).
template <class T>
T rms_norm_row(std::int64_t features, double epsilon, bool one_plus, const T* x, const T* scale,
               T* y) {
  double squares = 0;
  for (std::int64_t f = 0; f < features; ++f) {
    squares += static_cast<double>(x[f]) * static_cast<double>(x[f]);
  }
  squares /= static_cast<double>(features);
  const double inverse = 1.0 / std::sqrt(squares + epsilon);
  for (std::int64_t f = 0; f < features; ++f)
    y[f] = static_cast<T>(static_cast<double>(x[f]) * inverse * rms_factor(scale, one_plus, f));
  return static_cast<T>(squares);
}

// dx of one row, which may be dy itself: with g = dy*factor,
// dx = inverse * (g - normalised * mean(g*normalised))
template <class T>
void rms_norm_row_gradient(std::int64_t features, double epsilon, bool one_plus, const T* x,
                           T square, const T* scale, const T* dy, T* dx) {
  const double inverse = 1.0 / std::sqrt(static_cast<double>(square) + epsilon);
  double products = 0;
  for (std::int64_t f = 0; f < features; ++f) {
    products += static_cast<double>(dy[f]) * rms_factor(scale, one_plus, f) *
                (static_cast<double>(x[f]) * inverse);
  }
  products /= static_cast<double>(features);
  for (std::int64_t f = 0; f < features; ++f) {
    const double g = static_cast<double>(dy[f]) * rms_factor(scale, one_plus, f);
    dx[f] = static_cast<T>(inverse * (g - static_cast<double>(x[f]) * inverse * products));
  }
}

// dscale (features), summed over the rows.
template <class T>
void rms_norm_scale_gradient(std::int64_t rows, std::int64_t features, double epsilon, const T* x,
                             const T* square, const T* dy, T* dscale) {
  for (std::int64_t f = 0; f < features; ++f) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) {
      const double inverse = 1.0 / std::sqrt(static_cast<double>(square[r]) + epsilon);
      sum += static_cast<double>(dy[r * features + f]) *
             (static_cast<double>(x[r * features + f]) * inverse);
    }
    dscale[f] = static_cast<T>(sum);
  }
}

}  // namespace hetpipe::reference
