// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/layer.h"

// Adaptive pooling of x (N, H, W, C) to y (N, rows, columns, C).
namespace hetpipe::reference {

// Places [begin, end) of an axis of `input` that window i of `output` averages.
struct AdaptiveWindow {
  std::int64_t begin, end;

  AdaptiveWindow(std::int64_t i, std::int64_t output, std::int64_t input)
      : begin(i * input / output), end(((i + 1) * input + output - 1) / output) {}
  std::int64_t size() const { return end - begin; }
};

// Calls visit(output pixel, its rows, its columns).
template <class Visit>
void for_each_window(const AdaptivePool& p, const Shape& in, Visit visit) {
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t oh = 0; oh < p.rows; ++oh)
      for (std::int64_t ow = 0; ow < p.columns; ++ow)
        visit((n * p.rows + oh) * p.columns + ow, n, AdaptiveWindow(oh, p.rows, in[1]),
              AdaptiveWindow(ow, p.columns, in[2]));
}

// Sums run in double, row by row.
template <class T>
void adaptive_average_forward(const AdaptivePool& p, const Shape& in, const T* x, T* y) {
  for_each_window(p, in,
                  [&](std::int64_t output, std::int64_t n, const AdaptiveWindow& rows,
                      const AdaptiveWindow& columns) {
                    for (std::int64_t c = 0; c < in[3]; ++c) {
                      double sum = 0;
                      for (std::int64_t h = rows.begin; h < rows.end; ++h)
                        for (std::int64_t w = columns.begin; w < columns.end; ++w)
                          sum += static_cast<double>(x[((n * in[1] + h) * in[2] + w) * in[3] + c]);
                      y[output * in[3] + c] =
                          static_cast<T>(sum / static_cast<double>(rows.size() * columns.size()));
                    }
                  });
}

template <class T>
void adaptive_average_backward(const AdaptivePool& p, const Shape& in, const T* dy, T* dx) {
  std::fill_n(dx, in.elements(), T{0});
  for_each_window(p, in,
                  [&](std::int64_t output, std::int64_t n, const AdaptiveWindow& rows,
                      const AdaptiveWindow& columns) {
                    const T area = static_cast<T>(rows.size() * columns.size());
                    for (std::int64_t h = rows.begin; h < rows.end; ++h)
                      for (std::int64_t w = columns.begin; w < columns.end; ++w)
                        for (std::int64_t c = 0; c < in[3]; ++c)
                          dx[((n * in[1] + h) * in[2] + w) * in[3] + c] +=
                              dy[output * in[3] + c] / area;
                  });
}

// `winner` (N, rows, columns, C): the pixel h*W + w of the largest, the first of equals; a NaN wins
// over all. May be null.
template <class T>
void adaptive_max_forward(const AdaptivePool& p, const Shape& in, const T* x, T* y,
                          std::int32_t* winner) {
  for_each_window(p, in,
                  [&](std::int64_t output, std::int64_t n, const AdaptiveWindow& rows,
                      const AdaptiveWindow& columns) {
                    for (std::int64_t c = 0; c < in[3]; ++c) {
                      std::int64_t best = rows.begin * in[2] + columns.begin;
                      const T* image = x + n * in[1] * in[2] * in[3] + c;
                      for (std::int64_t h = rows.begin; h < rows.end; ++h)
                        for (std::int64_t w = columns.begin; w < columns.end; ++w) {
                          const T value = image[(h * in[2] + w) * in[3]];
                          if (value > image[best * in[3]] || value != value) best = h * in[2] + w;
                        }
                      y[output * in[3] + c] = image[best * in[3]];
                      if (winner != nullptr)
                        winner[output * in[3] + c] = static_cast<std::int32_t>(best);
                    }
                  });
}

template <class T>
void adaptive_max_backward(const AdaptivePool& p, const Shape& in, const T* dy,
                           const std::int32_t* winner, T* dx) {
  std::fill_n(dx, in.elements(), T{0});
  for_each_window(
      p, in,
      [&](std::int64_t output, std::int64_t n, const AdaptiveWindow&, const AdaptiveWindow&) {
        for (std::int64_t c = 0; c < in[3]; ++c)
          dx[(n * in[1] * in[2] + winner[output * in[3] + c]) * in[3] + c] +=
              dy[output * in[3] + c];
      });
}

}  // namespace hetpipe::reference
