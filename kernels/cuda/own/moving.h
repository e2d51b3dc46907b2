// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"
#include "kernels/shape.h"

// Layers that only move elements (kernels/reference/elementwise.h), bit for bit. T is float, Bf16
// or Fp16.
namespace hetpipe::cuda {

// x (N, H, W, C) <-> y (N, C*H*W); `in` is the shape of x.
template <class T>
void flatten_forward(const Shape& in, const T* x, T* y, On on);
template <class T>
void flatten_backward(const Shape& in, const T* dy, T* dx, On on);

// One input of a concatenation, x (rows, channels), to the columns [first, first + channels) of
// y (rows, all), and the same columns of dy back.
template <class T>
void concat_forward(std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t all,
                    const T* x, T* y, On on);
template <class T>
void concat_backward(std::int64_t rows, std::int64_t channels, std::int64_t first, std::int64_t all,
                     const T* dy, T* dx, On on);

// y[h, w] = x[h + rows, w + columns], 0 outside; negative shifts are the gradient of positive ones.
template <class T>
void shift(const Shape& in, std::int64_t rows, std::int64_t columns, const T* x, T* y, On on);

}  // namespace hetpipe::cuda
