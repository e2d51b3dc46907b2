// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"
#include "kernels/resize_place.h"
#include "kernels/shape.h"

// Resizing and adaptive pooling of x (N, H, W, C), as kernels/reference/resize.h and
// adaptive_pool.h define them, T being float, Bf16 or Fp16. Sums run in fp32 in the definition's
// order and are rounded once. A backward gathers for each input element what reaches it, so nothing
// depends on timing. `in` is the shape of x throughout, dx is overwritten.
namespace hetpipe::cuda {

// y (N, rows.output, columns.output, C).
template <class T>
void resize_forward(const ResizeAxis& rows, const ResizeAxis& columns, const Shape& in, const T* x,
                    T* y, On on);
template <class T>
void resize_backward(const ResizeAxis& rows, const ResizeAxis& columns, const Shape& in,
                     const T* dy, T* dx, On on);

// y (N, rows, columns, C).
template <class T>
void adaptive_average_forward(std::int64_t rows, std::int64_t columns, const Shape& in, const T* x,
                              T* y, On on);
template <class T>
void adaptive_average_backward(std::int64_t rows, std::int64_t columns, const Shape& in,
                               const T* dy, T* dx, On on);
// `winner`: the pixel h*W + w of the largest, like y; may be null in the forward.
template <class T>
void adaptive_max_forward(std::int64_t rows, std::int64_t columns, const Shape& in, const T* x,
                          T* y, std::int32_t* winner, On on);
template <class T>
void adaptive_max_backward(std::int64_t rows, std::int64_t columns, const Shape& in, const T* dy,
                           const std::int32_t* winner, T* dx, On on);

}  // namespace hetpipe::cuda
