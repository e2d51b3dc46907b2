// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/norm_loops.h"

#include <cmath>

#include "kernels/cpu/loop_sums.h"
#include "kernels/pointwise_math.h"

namespace hetpipe::loops {

HETPIPE_EVERY_WIDTH void layer_norm_rows(float* __restrict y, const float* __restrict x,
                                         const float* __restrict scale,
                                         const float* __restrict shift, float* __restrict mean,
                                         float* __restrict variance, double epsilon,
                                         std::int64_t rows, std::int64_t features) {
  const double n = static_cast<double>(features);
  for (std::int64_t r = 0; r < rows; ++r, x += features, y += features) {
    const float m = static_cast<float>(
        sum_along<1>(features, [=](std::int64_t i) { return std::array<float, 1>{x[i]}; })[0] / n);
    const double v = sum_along<1>(features,
                                  [=](std::int64_t i) {
                                    const float d = x[i] - m;
                                    return std::array<float, 1>{d * d};
                                  })[0] /
                     n;
    const float inverse = static_cast<float>(1.0 / std::sqrt(v + epsilon));
    for (std::int64_t i = 0; i < features; ++i) y[i] = (x[i] - m) * inverse * scale[i] + shift[i];
    mean[r] = m;
    variance[r] = static_cast<float>(v);
  }
}

HETPIPE_EVERY_WIDTH void layer_norm_rows_backward(float* dx, const float* dy,
                                                  const float* __restrict x,
                                                  const float* __restrict mean,
                                                  const float* __restrict inverse,
                                                  const float* __restrict scale, std::int64_t rows,
                                                  std::int64_t features) {
  const double n = static_cast<double>(features);
  for (std::int64_t r = 0; r < rows; ++r, x += features, dx += features, dy += features) {
    const float m = mean[r], by = inverse[r];
    const std::array<double, 2> sums = sum_along<2>(features, [=](std::int64_t i) {
      const float g = dy[i] * scale[i];
      return std::array<float, 2>{g, g * ((x[i] - m) * by)};
    });
    const float g_mean = static_cast<float>(sums[0] / n);
    const float slope = static_cast<float>(sums[1] / n);
    HETPIPE_INDEPENDENT
    for (std::int64_t i = 0; i < features; ++i) {
      dx[i] = by * (dy[i] * scale[i] - g_mean - (x[i] - m) * by * slope);
    }
  }
}

HETPIPE_EVERY_WIDTH void layer_norm_parameter_sums(
    double* __restrict products, double* __restrict sums, const float* __restrict dy,
    const float* __restrict x, const float* __restrict mean, const float* __restrict inverse,
    std::int64_t rows, std::int64_t features) {
  add_rows<2>({products, sums}, rows, features, [=](std::int64_t r, std::int64_t i) {
    const float g = dy[r * features + i];
    return std::array<float, 2>{g * ((x[r * features + i] - mean[r]) * inverse[r]), g};
  });
}

HETPIPE_EVERY_WIDTH void rms_norm_rows(float* __restrict y, const float* __restrict x,
                                       const float* __restrict scale, float* __restrict squares,
                                       double epsilon, std::int64_t rows, std::int64_t features) {
  const double n = static_cast<double>(features);
  for (std::int64_t r = 0; r < rows; ++r, x += features, y += features) {
    const double square =
        sum_along<1>(features,
                     [=](std::int64_t i) { return std::array<float, 1>{x[i] * x[i]}; })[0] /
        n;
    const float inverse = static_cast<float>(1.0 / std::sqrt(square + epsilon));
    for (std::int64_t i = 0; i < features; ++i) y[i] = x[i] * inverse * scale[i];
    squares[r] = static_cast<float>(square);
  }
}

HETPIPE_EVERY_WIDTH void rms_norm_rows_backward(float* dx, const float* dy,
                                                const float* __restrict x,
                                                const float* __restrict inverse,
                                                const float* __restrict scale, std::int64_t rows,
                                                std::int64_t features) {
  for (std::int64_t r = 0; r < rows; ++r, x += features, dx += features, dy += features) {
    const float by = inverse[r];
    const double sum = sum_along<1>(features, [=](std::int64_t i) {
      return std::array<float, 1>{dy[i] * scale[i] * (x[i] * by)};
    })[0];
    const float slope = static_cast<float>(sum / static_cast<double>(features));
    HETPIPE_INDEPENDENT
    for (std::int64_t i = 0; i < features; ++i) {
      dx[i] = by * (dy[i] * scale[i] - x[i] * by * slope);
    }
  }
}

HETPIPE_EVERY_WIDTH void rms_norm_parameter_sums(double* __restrict products,
                                                 const float* __restrict dy,
                                                 const float* __restrict x,
                                                 const float* __restrict inverse, std::int64_t rows,
                                                 std::int64_t features) {
  add_rows<1>({products}, rows, features, [=](std::int64_t r, std::int64_t i) {
    return std::array<float, 1>{dy[r * features + i] * (x[r * features + i] * inverse[r])};
  });
}

HETPIPE_EVERY_WIDTH void group_norm_backward(float* dx, const float* dy, const float* __restrict x,
                                             const float* __restrict mean,
                                             const float* __restrict factor,
                                             const float* __restrict shift,
                                             const float* __restrict slope, std::int64_t rows,
                                             std::int64_t channels) {
  for (std::int64_t r = 0; r < rows; ++r, x += channels, dx += channels, dy += channels) {
    HETPIPE_INDEPENDENT
    for (std::int64_t c = 0; c < channels; ++c) {
      dx[c] = dy[c] * factor[c] - shift[c] - (x[c] - mean[c]) * slope[c];
    }
  }
}

HETPIPE_EVERY_WIDTH SoftmaxSum softmax_sum(float* __restrict exponentials,
                                           const float* __restrict x, std::int64_t count) {
  float lanes[kLanes];
  for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = x[0];
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] = x[i + l] > lanes[l] ? x[i + l] : lanes[l];
  }
  for (; i < count; ++i) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
  SoftmaxSum s;
  s.largest = lanes[0];
  for (std::int64_t l = 1; l < kLanes; ++l) s.largest = lanes[l] > s.largest ? lanes[l] : s.largest;
  while (s.best + 1 < count && x[s.best] != s.largest) ++s.best;
  const float largest = s.largest;
  if (exponentials == nullptr) {
    s.sum = sum_along<1>(count, [=](std::int64_t k) {
      return std::array<float, 1>{pointwise::exp(x[k] - largest)};
    })[0];
    return s;
  }
  for (std::int64_t k = 0; k < count; ++k) exponentials[k] = pointwise::exp(x[k] - largest);
  s.sum =
      sum_along<1>(count, [=](std::int64_t k) { return std::array<float, 1>{exponentials[k]}; })[0];
  return s;
}

HETPIPE_EVERY_WIDTH void softmax_loss_gradient(float* __restrict dx, const float* __restrict p,
                                               float target, float denominator, float scale,
                                               std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) dx[k] = (p[k] - target) / denominator * scale;
}

}  // namespace hetpipe::loops
