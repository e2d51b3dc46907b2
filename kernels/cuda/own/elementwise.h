// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"
#include "kernels/elementwise.h"

// The elementwise layers of kernels/elementwise.h, and sums, on activations of T: float, Bf16 or
// Fp16. An element is worked out in fp32 and rounded once. The output may take the memory of an
// input throughout.
namespace hetpipe::cuda {

template <class T>
void elementwise_forward(const ElementwiseSpec& layer, const T* x, T* y, std::int64_t count, On on);
// read: the input or the output, as the layer's row says.
template <class T>
void elementwise_backward(const ElementwiseSpec& layer, const T* read, const T* dy, T* dx,
                          std::int64_t count, On on);

template <class T>
void add_forward(const T* a, const T* b, T* y, std::int64_t count, On on);
// relu(a + b), the sum not rounded in between: the end of a residual block in one pass.
template <class T>
void add_relu_forward(const T* a, const T* b, T* y, std::int64_t count, On on);

// y = x, bit for bit; nothing is done where they are one array.
template <class T>
void copy(const T* x, T* y, std::int64_t count, On on);

}  // namespace hetpipe::cuda
