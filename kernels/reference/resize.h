// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/resize.h"

// Resizing of x (N, H, W, C) to y (N, rows, columns, C).
namespace hetpipe::reference {

// Calls visit(output pixel, input pixel, weight) for the one (nearest) or up to four pixels that an
// output pixel is a sum of; output pixels in row order, weights of 0 left out.
template <class Visit>
void for_each_source(const Resize& r, const Shape& in, Visit visit) {
  const auto rows = resize_places(r.kind, in[1], r.rows, r.row_step);
  const auto columns = resize_places(r.kind, in[2], r.columns, r.column_step);
  std::int64_t output = 0;
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (const ResizePlace& row : rows)
      for (const ResizePlace& column : columns) {
        const auto at = [&](std::int64_t h, std::int64_t w, float weight) {
          if (weight != 0) visit(output, (n * in[1] + h) * in[2] + w, weight);
        };
        at(row.low, column.low, row.low_weight * column.low_weight);
        at(row.low, column.high, row.low_weight * column.high_weight);
        at(row.high, column.low, row.high_weight * column.low_weight);
        at(row.high, column.high, row.high_weight * column.high_weight);
        ++output;
      }
}

template <class T>
void resize_forward(const Resize& r, const Shape& in, const T* x, T* y) {
  const std::int64_t channels = in[3];
  std::fill_n(y, in[0] * r.rows * r.columns * channels, T{0});
  for_each_source(r, in, [&](std::int64_t output, std::int64_t input, float weight) {
    for (std::int64_t c = 0; c < channels; ++c)
      y[output * channels + c] += static_cast<T>(weight) * x[input * channels + c];
  });
}

template <class T>
void resize_backward(const Resize& r, const Shape& in, const T* dy, T* dx) {
  const std::int64_t channels = in[3];
  std::fill_n(dx, in.elements(), T{0});
  for_each_source(r, in, [&](std::int64_t output, std::int64_t input, float weight) {
    for (std::int64_t c = 0; c < channels; ++c)
      dx[input * channels + c] += static_cast<T>(weight) * dy[output * channels + c];
  });
}

}  // namespace hetpipe::reference
