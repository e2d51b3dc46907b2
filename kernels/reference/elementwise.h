// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "kernels/dropout.h"
#include "kernels/layer.h"

// Layers that treat each element by itself, and those that only move them.
namespace hetpipe::reference {

template <Elementwise Layer, class T>
void elementwise_forward(const Layer& layer, std::int64_t count, const T* x, T* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = layer.forward(x[i]);
}

// read: what the layer's row says that backward reads. dx may be dy.
template <Elementwise Layer, class T>
void elementwise_backward(const Layer& layer, std::int64_t count, const T* read, const T* dy,
                          T* dx) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = layer.backward(read[i], dy[i]);
}

template <class T>
void add_forward(std::int64_t count, const T* a, const T* b, T* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
}

// One of the inputs of a concatenation, x (rows, channels), to its columns [first, first +
// channels) of y (rows, all), and the same columns of dy back to dx.
template <class T>
void concat_forward(std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t all,
                    const T* x, T* y) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < channels; ++c) y[r * all + first + c] = x[r * channels + c];
}

template <class T>
void concat_backward(std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t all,
                     const T* dy, T* dx) {
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < channels; ++c) dx[r * channels + c] = dy[r * all + first + c];
}

// y[h, w] = x[h + rows, w + columns], 0 outside; negative shifts are the gradient of positive ones.
template <class T>
void shift(const Shape& in, std::int64_t rows, std::int64_t columns, const T* x, T* y) {
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t h = 0; h < in[1]; ++h)
      for (std::int64_t w = 0; w < in[2]; ++w) {
        const std::int64_t from_h = h + rows, from_w = w + columns;
        const bool inside = from_h >= 0 && from_h < in[1] && from_w >= 0 && from_w < in[2];
        for (std::int64_t c = 0; c < in[3]; ++c)
          *y++ = inside ? x[((n * in[1] + from_h) * in[2] + from_w) * in[3] + c] : T{0};
      }
}

// x (N, H, W, C) -> y (N, C*H*W)
template <class T>
void flatten_forward(const Shape& in, const T* x, T* y) {
  const std::int64_t pixels = in[1] * in[2], channels = in[3];
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = 0; c < channels; ++c)
        y[(n * channels + c) * pixels + p] = x[(n * pixels + p) * channels + c];
}

template <class T>
void flatten_backward(const Shape& in, const T* dy, T* dx) {
  const std::int64_t pixels = in[1] * in[2], channels = in[3];
  for (std::int64_t n = 0; n < in[0]; ++n)
    for (std::int64_t p = 0; p < pixels; ++p)
      for (std::int64_t c = 0; c < channels; ++c)
        dx[(n * pixels + p) * channels + c] = dy[(n * channels + c) * pixels + p];
}

// kept[e] is 1 where the draw of element e is at least `rate`, for each of `samples` samples.
inline void dropout_draw(std::uint64_t layer_key, std::span<const SampleKey> samples,
                         std::int64_t sample_elements, float rate, std::uint8_t* kept,
                         std::int64_t draws = 0) {
  if (draws == 0) draws = sample_elements;
  for (const SampleKey& sample : samples) {
    const std::uint64_t key = dropout_key(layer_key, sample);
    for (std::int64_t e = 0; e < sample_elements; ++e)
      *kept++ = random_uniform(key, static_cast<std::uint64_t>(e % draws)) >= rate;
  }
}

// y = kept ? x * factor : 0, factor = 1 / (1 - rate); the gradient is the same function of dy.
template <class T>
void dropout_apply(std::int64_t count, const std::uint8_t* kept, T factor, const T* x, T* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = kept[i] != 0 ? x[i] * factor : T{0};
}

// map: AlphaDropoutMap of the rate.
template <class T>
void alpha_dropout_forward(std::int64_t count, const std::uint8_t* kept, const AlphaDropoutMap& map,
                           const T* x, T* y) {
  const T scale = static_cast<T>(map.scale), shift = static_cast<T>(map.shift);
  const T dropped = static_cast<T>(map.dropped);
  for (std::int64_t i = 0; i < count; ++i) y[i] = kept[i] != 0 ? x[i] * scale + shift : dropped;
}

}  // namespace hetpipe::reference
