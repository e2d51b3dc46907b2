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
  std::int64_t padding_end = padding;  // behind the last place
  std::int64_t dilation = 1;           // from tap to tap
  bool ceil_mode = false;              // see MaxPool

  // From the first tap to the last, both counted.
  std::int64_t span() const { return dilation * (kernel - 1) + 1; }
  // Positions along an extent; windows that would leave the padded image are dropped. Below 1:
  // none.
  std::int64_t positions(std::int64_t extent) const {
    const std::int64_t room = extent + padding + padding_end - span();
    if (room < 0) return 0;
    if (!ceil_mode) return room / stride + 1;
    const std::int64_t count = (room + stride - 1) / stride + 1;
    return (count - 1) * stride >= extent + padding ? count - 1 : count;
  }
  // Offsets [begin, end) of the window at `position` that lie inside the image.
  std::int64_t begin(std::int64_t position) const {
    return taps_before(padding - position * stride);
  }
  std::int64_t end(std::int64_t position, std::int64_t extent) const {
    return std::min(kernel, taps_before(extent + padding - position * stride));
  }
  // Places of the window at `position` inside the padded image; without dilation.
  std::int64_t padded(std::int64_t position, std::int64_t extent) const {
    return std::min(kernel, extent + padding + padding_end - position * stride);
  }
  // Where in the image the tap `offset` of the window at `position` lies.
  std::int64_t at(std::int64_t position, std::int64_t offset) const {
    return position * stride - padding + offset * dilation;
  }
  // The position whose tap `offset` lies at `place` of the image, or -1; below positions() or not.
  std::int64_t position_over(std::int64_t place, std::int64_t offset) const {
    const std::int64_t from = place + padding - offset * dilation;
    return from < 0 || from % stride != 0 ? -1 : from / stride;
  }

 private:
  // How many taps lie less than `distance` behind the first.
  std::int64_t taps_before(std::int64_t distance) const {
    return distance <= 0 ? 0 : (distance + dilation - 1) / dilation;
  }
};

struct Window {
  WindowSide rows, columns;

  Window() = default;
  Window(Sides kernel, Sides stride, Sides padding)
      : rows{.kernel = kernel.rows, .stride = stride.rows, .padding = padding.rows},
        columns{.kernel = kernel.columns, .stride = stride.columns, .padding = padding.columns} {}

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
  Window w(spec.kernel, spec.stride, spec.padding);
  if constexpr (requires { spec.dilation; }) {
    w.rows.dilation = spec.dilation.rows;
    w.columns.dilation = spec.dilation.columns;
  }
  if constexpr (requires { spec.padding_end; }) {
    if (spec.padding_end) {
      w.rows.padding_end = spec.padding_end->rows;
      w.columns.padding_end = spec.padding_end->columns;
    }
  }
  if constexpr (requires { spec.ceil_mode; })
    w.rows.ceil_mode = w.columns.ceil_mode = spec.ceil_mode;
  return w;
}

// (N, H', W', O) of a transposed convolution of `in` (N, H, W, I).
template <class Transposed>
Shape transposed_output(const Transposed& c, const Shape& in) {
  const Window w = window_of(c);
  const auto extent = [](const WindowSide& side, std::int64_t positions, int more) {
    return (positions - 1) * side.stride - 2 * side.padding + side.span() + more;
  };
  return {in[0], extent(w.rows, in[1], c.output_padding.rows),
          extent(w.columns, in[2], c.output_padding.columns), c.output_channels};
}

}  // namespace hetpipe
