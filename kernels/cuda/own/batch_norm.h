// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Batch normalisation of x (rows, channels) as kernels/reference/batch_norm.h defines it, with what
// often follows it: the sum with a residual and ReLU. For T float, Bf16, Fp16; mean, variance,
// parameters and their gradients are float (channels). Rows are split over blocks.
namespace hetpipe::cuda {

struct BatchNormSizes {
  std::int64_t rows = 0;
  std::int64_t channels = 0;
  float epsilon = 1e-5f;
};

enum class AfterNorm { nothing, relu };

// Of all launchers here.
template <class T>
std::size_t batch_norm_scratch_bytes(const BatchNormSizes& s);

// Running statistics, and the share of a batch in them; null: they stay.
struct RunningStatistics {
  float momentum = 0.1f;
  float* mean = nullptr;
  float* variance = nullptr;
};

// The batch's mean and biased variance, by Welford's method in float, merged as Chan et al. do
// (1979): as exact where the mean is large as where it is 0. Moves the bytes of x once.
template <class T>
void batch_norm_statistics(const BatchNormSizes& s, const T* x, float* mean, float* variance,
                           const RunningStatistics& running, void* scratch, On on);

// y = (x - mean) / sqrt(variance + epsilon) * scale + shift, plus `residual` unless it is null,
// then ReLU where wanted; in evaluation with the running statistics. y may be x or residual. Moves
// the bytes of x, y and residual once.
template <class T>
void batch_norm_forward(const BatchNormSizes& s, AfterNorm after, const T* x, const float* mean,
                        const float* variance, const float* scale, const float* shift,
                        const T* residual, T* y, On on);

// What backward reads, and writes where it is not null. What ReLU let pass is seen in y, the
// output, or, where there was no residual and y is null, worked out from x and shift once more,
// which costs less than reading. dx and dresidual, the gradient of the residual (dy where ReLU let
// it pass), may each be dy.
template <class T>
struct BatchNormGradients {
  const T* x = nullptr;
  const T* y = nullptr;
  const T* dy = nullptr;
  const float* mean = nullptr;
  const float* variance = nullptr;
  const float* scale = nullptr;
  const float* shift = nullptr;
  T* dx = nullptr;
  T* dresidual = nullptr;
  float* dscale = nullptr;
  float* dshift = nullptr;
};

// Moves the bytes of x and dy (and of y, where it is read) twice and those of dx and dresidual
// once; without dx and dresidual x and dy (and y) once.
template <class T>
void batch_norm_backward(const BatchNormSizes& s, AfterNorm after, const BatchNormGradients<T>& g,
                         void* scratch, On on);

}  // namespace hetpipe::cuda
