// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Layer normalisation of x (rows, features) as kernels/reference/layer_norm.h defines it. For T
// float, Bf16, Fp16; scale, shift and their gradients are float (features), mean and variance float
// (rows). A row of up to 8192 elements, in packs of 16 bytes, stays in registers between its sums
// and its result.
namespace hetpipe::cuda {

struct LayerNormSizes {
  std::int64_t rows = 0;
  std::int64_t features = 0;
  float epsilon = 1e-5f;
};

// mean and variance may both be null. y may be x. Moves the bytes of x and y once.
template <class T>
void layer_norm_forward(const LayerNormSizes& s, const T* x, const float* scale, const float* shift,
                        T* y, float* mean, float* variance, On on);

// dx may be dy. Moves the bytes of x, dy and dx once.
template <class T>
void layer_norm_input_gradient(const LayerNormSizes& s, const T* x, const float* mean,
                               const float* variance, const float* scale, const T* dy, T* dx,
                               On on);

template <class T>
std::size_t layer_norm_scratch_bytes(const LayerNormSizes& s);

// dscale or dshift may be null. Before dx where that is dy. Moves the bytes of x and dy once.
template <class T>
void layer_norm_parameter_gradients(const LayerNormSizes& s, const T* x, const float* mean,
                                    const float* variance, const T* dy, float* dscale,
                                    float* dshift, void* scratch, On on);

}  // namespace hetpipe::cuda
