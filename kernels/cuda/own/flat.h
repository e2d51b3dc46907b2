// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Work on flat arrays of device memory: what Device (kernels/device.h) promises of fp32 ones, bit
// for bit; and sums of activations' gradients, T being float, Bf16 or Fp16, added in fp32 and
// rounded once.
namespace hetpipe::cuda {

void fill(float* x, float value, std::int64_t count, On on);
void scale(float* y, float factor, std::int64_t count, On on);  // y *= factor

template <class T>
void add(T* y, const T* x, std::int64_t count, On on);  // y += x
template <class T>
void sum(T* z, const T* x, const T* y, std::int64_t count, On on);  // z = x + y

// Doubles of scratch that sum_of_squares takes.
std::int64_t squares_scratch(std::int64_t count);
// How fast a card's doubles are. The sum has the same bits either way: where they are slow, 32 or
// 64 times slower than floats, squares are added by integers and only blocks of them in double.
enum class Doubles { fast, slow };
constexpr Doubles doubles_of(int major, int minor) {
  return minor == 0 && major >= 6 && major <= 10 ? Doubles::fast : Doubles::slow;
}
void sum_of_squares(double* sum, const float* x, std::int64_t count, double* scratch,
                    Doubles doubles, On on);
// y *= clip_factor(squares, parts, max_norm), which `factor` (device memory) is left with.
void limit_norm(float* y, const double* squares, std::int64_t parts, double max_norm,
                std::int64_t count, float* factor, On on);

}  // namespace hetpipe::cuda
