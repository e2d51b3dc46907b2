// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"
#include "kernels/window.h"

// Pooling (kernels/reference/pooling.h) of x (N, H, W, C) to y (N, H', W', C), T being float, Bf16
// or Fp16. Sums run in fp32 in the definition's order, in double for the global mean, and are
// rounded once. A backward gathers for each input element what reaches it, so nothing depends on
// timing. `in` is the shape of x throughout.
namespace hetpipe::cuda {

// `winner`: the place of the largest in its window, one byte per output; may be null in the
// forward.
template <class T>
void max_pool_forward(const Window& window, const Shape& in, const T* x, T* y, std::uint8_t* winner,
                      On on);
template <class T>
void max_pool_backward(const Window& window, const Shape& in, const T* dy,
                       const std::uint8_t* winner, T* dx, On on);

template <class T>
void average_pool_forward(const Window& window, const Shape& in, bool count_padding, const T* x,
                          T* y, On on);
template <class T>
void average_pool_backward(const Window& window, const Shape& in, bool count_padding, const T* dy,
                           T* dx, On on);

// y (N, C)
template <class T>
void global_average_pool_forward(const Shape& in, const T* x, T* y, On on);
template <class T>
void global_average_pool_backward(const Shape& in, const T* dy, T* dx, On on);

}  // namespace hetpipe::cuda
