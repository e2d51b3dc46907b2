// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/shape.h"
#include "kernels/window.h"

// Pooling of x (N, H, W, C) to y (N, H', W', C).
namespace hetpipe::reference {

// Calls visit(output pixel, input pixel, place in the window) for every tap of every output pixel
// that lies inside the image, output pixels and taps in row order.
template <class Visit>
void for_each_tap(const Window& window, const Shape& in, Visit visit) {
  const Shape out = window.output(in, in[3]);
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t oh = 0; oh < out[1]; ++oh)
      for (std::int64_t ow = 0; ow < out[2]; ++ow)
        for (std::int64_t kh = window.rows.begin(oh); kh < window.rows.end(oh, in[1]); ++kh)
          for (std::int64_t kw = window.columns.begin(ow); kw < window.columns.end(ow, in[2]);
               ++kw) {
            const std::int64_t h = window.rows.at(oh, kh);
            const std::int64_t w = window.columns.at(ow, kw);
            visit((n * out[1] + oh) * out[2] + ow, (n * in[1] + h) * in[2] + w,
                  window.place(kh, kw));
          }
}

// `winner` (N, H', W', C): the place (Window::place) of the largest element in its window, the
// first of equals; a NaN wins over all. May be null.
template <class T>
void max_pool_forward(const Window& window, const Shape& in, const T* x, T* y,
                      std::uint8_t* winner) {
  const std::int64_t channels = in[3];
  std::int64_t started = -1;  // output pixels come in order; its first tap starts a window
  for_each_tap(window, in, [&](std::int64_t output, std::int64_t input, std::int64_t place) {
    const bool first = output != started;
    started = output;
    for (std::int64_t c = 0; c < channels; ++c) {
      const T value = x[input * channels + c];
      T& best = y[output * channels + c];
      if (first || value > best || value != value) {
        best = value;
        if (winner != nullptr) {
          winner[output * channels + c] = static_cast<std::uint8_t>(place);
        }
      }
    }
  });
}

template <class T>
void max_pool_backward(const Window& window, const Shape& in, const T* dy,
                       const std::uint8_t* winner, T* dx) {
  const std::int64_t channels = in[3];
  std::fill(dx, dx + in.elements(), T{0});
  for_each_tap(window, in, [&](std::int64_t output, std::int64_t input, std::int64_t place) {
    for (std::int64_t c = 0; c < channels; ++c)
      if (winner[output * channels + c] == place)
        dx[input * channels + c] += dy[output * channels + c];
  });
}

// What the window at output pixel (oh, ow) is divided by: its places inside the padded image,
// padded ones as zeros, or those inside the image.
inline std::int64_t places_averaged(const Window& window, const Shape& in, bool count_padding,
                                    std::int64_t oh, std::int64_t ow) {
  if (count_padding) return window.rows.padded(oh, in[1]) * window.columns.padded(ow, in[2]);
  return (window.rows.end(oh, in[1]) - window.rows.begin(oh)) *
         (window.columns.end(ow, in[2]) - window.columns.begin(ow));
}

template <class T>
void average_pool_forward(const Window& window, const Shape& in, bool count_padding, const T* x,
                          T* y) {
  const Shape out = window.output(in, in[3]);
  const std::int64_t channels = in[3];
  std::fill(y, y + out.elements(), T{0});
  for_each_tap(window, in, [&](std::int64_t output, std::int64_t input, std::int64_t) {
    for (std::int64_t c = 0; c < channels; ++c) y[output * channels + c] += x[input * channels + c];
  });
  for (std::int64_t output = 0; output < out[0] * out[1] * out[2]; ++output) {
    const T area = static_cast<T>(
        places_averaged(window, in, count_padding, output / out[2] % out[1], output % out[2]));
    for (std::int64_t c = 0; c < channels; ++c) y[output * channels + c] /= area;
  }
}

template <class T>
void average_pool_backward(const Window& window, const Shape& in, bool count_padding, const T* dy,
                           T* dx) {
  const Shape out = window.output(in, in[3]);
  const std::int64_t channels = in[3];
  std::fill(dx, dx + in.elements(), T{0});
  for_each_tap(window, in, [&](std::int64_t output, std::int64_t input, std::int64_t) {
    const T area = static_cast<T>(
        places_averaged(window, in, count_padding, output / out[2] % out[1], output % out[2]));
    for (std::int64_t c = 0; c < channels; ++c)
      dx[input * channels + c] += dy[output * channels + c] / area;
  });
}

// y (N, C): the mean over rows and columns.
template <class T>
void global_average_pool_forward(const Shape& in, const T* x, T* y) {
  const std::int64_t pixels = in[1] * in[2], channels = in[3];
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::int64_t p = 0; p < pixels; ++p)
        sum += static_cast<double>(x[(n * pixels + p) * channels + c]);
      y[n * channels + c] = static_cast<T>(sum / static_cast<double>(pixels));
    }
}

template <class T>
void global_average_pool_backward(const Shape& in, const T* dy, T* dx) {
  const std::int64_t pixels = in[1] * in[2], channels = in[3];
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = 0; c < channels; ++c)
        dx[(n * pixels + p) * channels + c] = dy[n * channels + c] / static_cast<T>(pixels);
}

}  // namespace hetpipe::reference
