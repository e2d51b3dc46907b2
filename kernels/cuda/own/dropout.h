// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Dropout and alpha dropout of (samples, elements) activations of T: float, Bf16 or Fp16. The draws
// are those of every other device: element e of a sample is kept where random_uniform(key, e) is at
// least `rate`, `keys` (device memory) holding dropout_key of each sample. `kept` is one
// byte per element, for the backward. The output may be an input's array, a gradient that of dy. In
// an evaluation both layers are copies (elementwise.h).
namespace hetpipe::cuda {

// With the sum behind it: y = dropout(x) + residual, rounded once; null: none. dresidual = dy. Each
// gradient may be null. Where `draws` is not 0, element e takes draw number e % draws of its
// sample.
template <class T>
void dropout_forward(const std::uint64_t* keys, std::int64_t samples, std::int64_t elements,
                     std::int64_t draws, float rate, const T* x, const T* residual,
                     std::uint8_t* kept, T* y, On on);
template <class T>
void dropout_backward(const std::uint8_t* kept, std::int64_t count, float rate, const T* dy, T* dx,
                      T* dresidual, On on);

template <class T>
void alpha_dropout_forward(const std::uint64_t* keys, std::int64_t samples, std::int64_t elements,
                           float rate, const T* x, std::uint8_t* kept, T* y, On on);
template <class T>
void alpha_dropout_backward(const std::uint8_t* kept, std::int64_t count, float rate, const T* dy,
                            T* dx, On on);

}  // namespace hetpipe::cuda
