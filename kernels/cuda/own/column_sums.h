// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/own/stream.h"

// sums (columns) of x (rows, columns): the gradient of a bias, and that of position embeddings.
// For T float, Bf16, Fp16. Moves the bytes of x once.
namespace hetpipe::cuda {

template <class T>
std::size_t column_sums_scratch_bytes(std::int64_t rows, std::int64_t columns);

// scratch: 16-byte aligned, null where it takes no bytes.
template <class T>
void column_sums(std::int64_t rows, std::int64_t columns, const T* x, float* sums, void* scratch,
                 On on);

// Behind a ReLU, whose output is y: dx = dy where it let dy pass, and sums (columns) of dx, which
// may be dy. Moves the bytes of y, dy and dx once.
template <class T>
void relu_backward_sums(std::int64_t rows, std::int64_t columns, const T* y, const T* dy, T* dx,
                        float* sums, void* scratch, On on);

}  // namespace hetpipe::cuda
