// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/resize.h"
#include "kernels/window.h"

// Resizing and pooling of images, channel by channel side by side, in the calling thread.
namespace hetpipe::loops {

// A backward gathers: of every place of one axis of the input, what reaches it from the output, the
// output's places in order. Those of place p are [begin[p], begin[p + 1]).
struct Reach {
  std::int64_t from = 0;  // a place of the output
  std::int64_t tap = 0;   // of a window: which of its taps lies here
  float weight = 1;       // of a resize
};
struct Reaches {
  std::vector<std::size_t> begin;
  std::vector<Reach> all;

  const Reach* first(std::int64_t p) const {
    return all.data() + begin[static_cast<std::size_t>(p)];
  }
  const Reach* end(std::int64_t p) const { return first(p + 1); }
};
Reaches reaches_of(const WindowSide& side, std::int64_t extent);
Reaches reaches_of(const std::vector<ResizePlace>& places, std::int64_t extent);

// One output row (W', C) of a max pool: `image` is one sample (H, W, C). winner may be null.
void max_pool_row(float* y, std::uint8_t* winner, const float* image, const Window& window,
                  const Shape& in, std::int64_t row);
// One row of the input gradient (W, C) of a max pool; dy and winner are a sample's (H', W', C).
void max_pool_backward_row(float* dx, const float* dy, const std::uint8_t* winner,
                           const Window& window, const Reaches& rows, const Reaches& columns,
                           const Shape& out, std::int64_t row, std::int64_t width);

// One row of a bilinear resize (columns, C), of two rows (W, C).
void bilinear_row(float* y, const float* low, const float* high, const ResizePlace& row,
                  const std::vector<ResizePlace>& columns, std::int64_t channels);
// One row of the input gradient (W, C) of a resize; dy (rows, columns, C) is a sample's, `sum`
// (columns, C) memory for the rows' sum.
void resize_backward_row(float* dx, const float* dy, const Reaches& rows, const Reaches& columns,
                         std::int64_t row, std::int64_t width, std::int64_t out_width,
                         std::int64_t channels, float* sum);

// sums (C) += the pixels that start at these places of an image.
void window_sums(double* sums, const float* image, const std::int64_t* pixels, std::int64_t count,
                 std::int64_t channels);

// The largest of rows [h0, h1) and columns [w0, w1) of a sample (H, W, C), and its pixel h*W + w,
// the first of equals; a NaN wins. winner may be null.
void window_maximum(float* y, std::int32_t* winner, const float* image, std::int64_t h0,
                    std::int64_t h1, std::int64_t w0, std::int64_t w1, std::int64_t width,
                    std::int64_t channels);

}  // namespace hetpipe::loops
