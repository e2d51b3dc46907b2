// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/sample_type.h"
#include "kernels/cuda/own/stream.h"

// From one type of numbers to another, and from one order of a convolution's weights to another.
// T is float, Bf16 or Fp16 throughout. Arrays are device memory and do not overlap.
namespace hetpipe::cuda {

// y = x, rounded to nearest.
template <class From, class To>
void convert(const From* x, To* y, std::int64_t count, On on);

// Rows of another length: what x has of each, zeros behind it. x (rows, from), y (rows, to).
template <class From, class To>
void fit_rows(const From* x, To* y, std::int64_t rows, std::int64_t from, std::int64_t to, On on);

// Samples as they are stored: pixels by their scale, in fp32, and numbers of tokens.
template <class To>
void pixels(const std::uint8_t* x, To* y, std::int64_t count, const PixelScale& scale, On on);
template <class To>
void tokens(const std::uint16_t* x, To* y, std::int64_t count, On on);

// Weights of the model, (outputs, inputs, taps) in fp32, as convolutions of NHWC images want them:
// (outputs, taps, inputs). taps = kernel rows * kernel columns.
template <class T>
void weights_to_krsc(const float* weights, T* krsc, std::int64_t outputs, std::int64_t inputs,
                     std::int64_t taps, On on);
// And a gradient back.
template <class T>
void gradient_from_krsc(const T* krsc, float* gradient, std::int64_t outputs, std::int64_t inputs,
                        std::int64_t taps, On on);

}  // namespace hetpipe::cuda
