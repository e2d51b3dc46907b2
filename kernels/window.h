// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/shape.h"

// A window that slides over the rows and columns of an image (N, H, W, C).
namespace hetpipe {

// Along one of the two.
struct WindowSide {
  std::int64_t kernel = 1;
  std::int64_t stride = 1;
  std::int64_t padding = 0;

  // Positions along an extent; windows that would leave the padded image are dropped. Below 1:
  // none.
  std::int64_t positions(std::int64_t extent) const {
    const std::int64_t room = extent + 2 * padding - kernel;
    return room < 0 ? 0 : room / stride + 1;
  }
  // Offsets [begin, end) of the window at `position` that lie inside the image.
  std::int64_t begin(std::int64_t position) const {
    return std::max<std::int64_t>(0, padding - position * stride);
  }
  std::int64_t end(std::int64_t position, std::int64_t extent) const {
    return std::min(kernel, extent + padding - position * stride);
  }
  // Where in the image the tap `offset` of the window at `position` lies.
  std::int64_t at(std::int64_t position, std::int64_t offset) const {
    return position * stride - padding + offset;
  }
};

struct Window {
  WindowSide rows, columns;

  Window() = default;
  Window(Sides kernel, int stride, Sides padding)
      : rows{kernel.rows, stride, padding.rows}, columns{kernel.columns, stride, padding.columns} {}

  std::int64_t taps() const { return rows.kernel * columns.kernel; }
  // The place of a tap in its window, row by row.
  std::int64_t place(std::int64_t row, std::int64_t column) const {
    return row * columns.kernel + column;
  }
  Shape output(const Shape& input, std::int64_t channels) const {
    return {input[0], rows.positions(input[1]), columns.positions(input[2]), channels};
  }
};

template <class Spec>
Window window_of(const Spec& spec) {
  return {spec.kernel, spec.stride, spec.padding};
}

}  // namespace hetpipe
