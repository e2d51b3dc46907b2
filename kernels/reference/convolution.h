// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include "kernels/layer.h"
#include "kernels/window.h"

// Cross-correlation, as all frameworks mean by convolution: plain loops over
// x (N, H, W, I), weight (O, I/groups, KH, KW), bias (O), y (N, H', W', O). Sums run in double, in
// one order.
namespace hetpipe::reference {

// The channels of one group: an output o sees the inputs [first_input(o), first_input(o) + inputs).
struct ConvolutionGroups {
  std::int64_t inputs, outputs;

  ConvolutionGroups(const Convolution& spec, const Shape& in)
      : inputs(in[3] / spec.groups), outputs(spec.output_channels / spec.groups) {}
  std::int64_t first_input(std::int64_t o) const { return o / outputs * inputs; }
  std::int64_t first_output(std::int64_t i) const { return i / inputs * outputs; }
};

// bias may be null.
template <class T>
void convolution_forward(const Convolution& spec, const Shape& in, const T* x, const T* weight,
                         const T* bias, T* y) {
  const Window window = window_of(spec);
  const ConvolutionGroups group(spec, in);
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
              const T* pixel = x + ((n * height + h) * width + w) * channels + group.first_input(o);
              const T* tap = weight + o * group.inputs * taps + window.place(kh, kw);
              for (std::int64_t i = 0; i < group.inputs; ++i)
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
  const ConvolutionGroups group(spec, in);
  const std::int64_t taps = window.taps();
  const Shape out = window.output(in, spec.output_channels);
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t h = 0; h < in[1]; ++h)
      for (std::int64_t w = 0; w < in[2]; ++w)
        for (std::int64_t i = 0; i < in[3]; ++i) {
          const std::int64_t first = group.first_output(i);
          const T* taps_of = weight + (first * group.inputs + i % group.inputs) * taps;
          double sum = 0;
          for (std::int64_t kh = 0; kh < window.rows.kernel; ++kh)
            for (std::int64_t kw = 0; kw < window.columns.kernel; ++kw) {
              const std::int64_t oh = window.rows.position_over(h, kh);
              const std::int64_t ow = window.columns.position_over(w, kw);
              if (oh < 0 || ow < 0 || oh >= out[1] || ow >= out[2]) continue;
              const T* gradient = dy + ((n * out[1] + oh) * out[2] + ow) * out[3] + first;
              const T* tap = taps_of + window.place(kh, kw);
              for (std::int64_t o = 0; o < group.outputs; ++o)
                sum += static_cast<double>(gradient[o]) *
                       static_cast<double>(tap[o * group.inputs * taps]);
            }
          *dx++ = static_cast<T>(sum);
        }
}

template <class T>
void convolution_weight_gradient(const Convolution& spec, const Shape& in, const T* x, const T* dy,
                                 T* dweight) {
  const Window window = window_of(spec);
  const ConvolutionGroups group(spec, in);
  const std::int64_t height = in[1], width = in[2], channels = in[3];
  const Shape out = window.output(in, spec.output_channels);
  for (std::int64_t o = 0; o < out[3]; ++o)
    for (std::int64_t i = group.first_input(o); i < group.first_input(o) + group.inputs; ++i)
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

// The convolution whose input gradient a transposed convolution's forward is: its input is the
// other's output (transposed_output()), its weight (its outputs, its inputs/groups, KH, KW) the
// other's.
inline Convolution gradient_of(const TransposedConvolution& c, const Shape& in) {
  return {.output_channels = static_cast<int>(in[3]),
          .kernel = c.kernel,
          .stride = c.stride,
          .padding = c.padding,
          .bias = false,
          .groups = c.groups,
          .dilation = c.dilation};
}

// y (N, H', W', O) of x (N, H, W, I), weight (I, O/groups, KH, KW); bias may be null.
template <class T>
void transposed_convolution_forward(const TransposedConvolution& c, const Shape& in, const T* x,
                                    const T* weight, const T* bias, T* y) {
  const Shape out = transposed_output(c, in);
  convolution_input_gradient(gradient_of(c, in), out, x, weight, y);
  for (std::int64_t e = 0; bias != nullptr && e < out.elements(); ++e) y[e] += bias[e % out[3]];
}
template <class T>
void transposed_convolution_input_gradient(const TransposedConvolution& c, const Shape& in,
                                           const T* dy, const T* weight, T* dx) {
  convolution_forward<T>(gradient_of(c, in), transposed_output(c, in), dy, weight, nullptr, dx);
}
template <class T>
void transposed_convolution_weight_gradient(const TransposedConvolution& c, const Shape& in,
                                            const T* x, const T* dy, T* dweight) {
  convolution_weight_gradient(gradient_of(c, in), transposed_output(c, in), dy, x, dweight);
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
