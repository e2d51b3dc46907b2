// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Layers that treat each element by itself (kernels/reference/elementwise.h, gelu.h) on activations
// of T: float, Bf16 or Fp16. An element is worked out in fp32 and rounded once. The output may take
// the memory of an input throughout.
namespace hetpipe::cuda {

template <class T>
void relu_forward(const T* x, T* y, std::int64_t count, On on);
template <class T>
void relu_backward(const T* y, const T* dy, T* dx, std::int64_t count, On on);

template <class T>
void selu_forward(const T* x, T* y, std::int64_t count, On on);
template <class T>
void selu_backward(const T* y, const T* dy, T* dx, std::int64_t count, On on);

template <class T>
void gelu_forward(const T* x, T* y, std::int64_t count, On on);
template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t count, On on);

template <class T>
void add_forward(const T* a, const T* b, T* y, std::int64_t count, On on);
// relu(a + b), the sum not rounded in between: the end of a residual block in one pass.
template <class T>
void add_relu_forward(const T* a, const T* b, T* y, std::int64_t count, On on);

// y = x, bit for bit; nothing is done where they are one array.
template <class T>
void copy(const T* x, T* y, std::int64_t count, On on);

}  // namespace hetpipe::cuda
