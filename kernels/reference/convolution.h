// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/layer.h"
#include "kernels/window.h"

// Cross-correlation, as all frameworks mean by convolution: plain loops over
// x (N, H, W, I), weight (O, I, KH, KW), bias (O), y (N, H', W', O). Sums run in double, in one
// order.
namespace hetpipe::reference {

// bias may be null.
template <class T>
void convolution_forward(const Convolution& spec, const Shape& in, const T* x, const T* weight,
                         const T* bias, T* y) {
  const Window window = window_of(spec);
  const std::int64_t height = in[1], width = in[2], channels = in[3], taps = window.taps();
  const Shape out = window.output(in, spec.output_channels);
  for (std::int64_t n = 0; n < out[0]; ++n)
    for (std::int64_t oh = 0; oh < out[1]; ++oh)
      for (std::int64_t ow = 0; ow < out[2]; ++ow)
        for (std::int64_t o = 0; o < out[3]; ++o) {
          double sum = bias != nullptr ? static_cast<double>(bias[o]) : 0.0;
          for (std::int64_t kh = window.rows.begin(oh); kh < window.rows.end(oh, height); ++kh)
            for (std::int64_t kw = window.columns.begin(ow); kw < window.columns.end(ow, width);
                 ++kw) {
              const std::int64_t h = window.rows.at(oh, kh);
              const std::int64_t w = window.columns.at(ow, kw);
              const T* pixel = x + ((n * height + h) * width + w) * channels;
              const T* tap = weight + o * channels * taps + window.place(kh, kw);
              for (std::int64_t i = 0; i < channels; ++i)
                sum += static_cast<double>(pixel[i]) * static_cast<double>(tap[i * taps]);
            }
          *y++ = static_cast<T>(sum);
        }
}

// dx[n, h, w, i] = sum over the outputs (oh, ow, o) whose window covers (h, w) at (kh, kw).
template <class T>
void convolution_input_gradient(const Convolution& spec, const Shape& in, const T* dy,
                                const T* weight, T* dx) {
  const Window window = window_of(spec);
  const std::int64_t channels = in[3], taps = window.taps();
  const Shape out = window.output(in, spec.output_channels);
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t h = 0; h < in[1]; ++h)
      for (std::int64_t w = 0; w < in[2]; ++w)
        for (std::int64_t i = 0; i < channels; ++i) {
          double sum = 0;
          for (std::int64_t kh = 0; kh < window.rows.kernel; ++kh)
            for (std::int64_t kw = 0; kw < window.columns.kernel; ++kw) {
              const std::int64_t row = h + window.rows.padding - kh;
              const std::int64_t column = w + window.columns.padding - kw;
              if (row < 0 || column < 0 || row % spec.stride != 0 || column % spec.stride != 0) {
                continue;
              }
              const std::int64_t oh = row / spec.stride;
              const std::int64_t ow = column / spec.stride;
              if (oh >= out[1] || ow >= out[2]) continue;
              const T* gradient = dy + ((n * out[1] + oh) * out[2] + ow) * out[3];
              for (std::int64_t o = 0; o < out[3]; ++o)
                sum +=
                    static_cast<double>(gradient[o]) *
                    static_cast<double>(weight[(o * channels + i) * taps + window.place(kh, kw)]);
            }
          *dx++ = static_cast<T>(sum);
        }
}

template <class T>
void convolution_weight_gradient(const Convolution& spec, const Shape& in, const T* x, const T* dy,
                                 T* dweight) {
  const Window window = window_of(spec);
  const std::int64_t height = in[1], width = in[2], channels = in[3];
  const Shape out = window.output(in, spec.output_channels);
  for (std::int64_t o = 0; o < out[3]; ++o)
    for (std::int64_t i = 0; i < channels; ++i)
      for (std::int64_t kh = 0; kh < window.rows.kernel; ++kh)
        for (std::int64_t kw = 0; kw < window.columns.kernel; ++kw) {
          double sum = 0;
          for (std::int64_t n = 0; n < out[0]; ++n)
            for (std::int64_t oh = 0; oh < out[1]; ++oh)
              for (std::int64_t ow = 0; ow < out[2]; ++ow) {
                const std::int64_t h = window.rows.at(oh, kh);
                const std::int64_t w = window.columns.at(ow, kw);
                if (h < 0 || h >= height || w < 0 || w >= width) continue;
                sum += static_cast<double>(x[((n * height + h) * width + w) * channels + i]) *
                       static_cast<double>(dy[((n * out[1] + oh) * out[2] + ow) * out[3] + o]);
              }
          *dweight++ = static_cast<T>(sum);
        }
}

// Sums each column of dy (rows, columns): the bias gradient of a convolution, seen as
// (N*H'*W', O), and of a linear layer.
template <class T>
void bias_gradient(std::int64_t rows, std::int64_t columns, const T* dy, T* dbias) {
  for (std::int64_t c = 0; c < columns; ++c) {
    double sum = 0;
    for (std::int64_t r = 0; r < rows; ++r) sum += static_cast<double>(dy[r * columns + c]);
    dbias[c] = static_cast<T>(sum);
  }
}

}  // namespace hetpipe::reference
