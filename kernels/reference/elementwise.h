// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"
#include "kernels/layer.h"

// Layers that treat each element by itself, and flatten, which only moves them.
namespace hetpipe::reference {

// A NaN stays a NaN, so that a numerical failure is not rectified away.
template <class T>
void relu_forward(std::int64_t count, const T* x, T* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] <= 0 ? T{0} : x[i];
}

template <class T>
void relu_backward(std::int64_t count, const T* y, const T* dy, T* dx) {
  for (std::int64_t i = 0; i < count; ++i) dx[i] = y[i] <= 0 ? T{0} : dy[i];
}

template <class T>
void add_forward(std::int64_t count, const T* a, const T* b, T* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
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

// The key of one sample's draws: the same in any batch, place, cut and re-computation.
inline std::uint64_t dropout_key(std::uint64_t layer_key, const SampleKey& sample) {
  return random_key({layer_key, static_cast<std::uint64_t>(sample.epoch),
                     static_cast<std::uint64_t>(sample.index)});
}

// kept[e] is 1 where the draw of element e is at least `rate`, for each of `samples` samples.
inline void dropout_draw(std::uint64_t layer_key, std::span<const SampleKey> samples,
                         std::int64_t sample_elements, float rate, std::uint8_t* kept) {
  for (const SampleKey& sample : samples) {
    const std::uint64_t key = dropout_key(layer_key, sample);
    for (std::int64_t e = 0; e < sample_elements; ++e)
      *kept++ = random_uniform(key, static_cast<std::uint64_t>(e)) >= rate;
  }
}

// y = kept ? x * factor : 0, factor = 1 / (1 - rate); the gradient is the same function of dy.
template <class T>
void dropout_apply(std::int64_t count, const std::uint8_t* kept, T factor, const T* x, T* y) {
  for (std::int64_t i = 0; i < count; ++i) y[i] = kept[i] != 0 ? x[i] * factor : T{0};
}

}  // namespace hetpipe::reference
