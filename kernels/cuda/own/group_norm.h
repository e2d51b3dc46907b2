// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Group and RMS normalisation as kernels/reference/group_norm.h defines them. For T float, Bf16,
// Fp16; scale, shift and their gradients are float (channels) and may be null. Sums run in fp32, in
// an order that the shape decides.
namespace hetpipe::cuda {

struct GroupNormSizes {
  std::int64_t batch = 0, pixels = 0, channels = 0, groups = 1;
  float epsilon = 1e-5f;
};

// x (N, pixels, channels); mean and variance (N, groups) may both be null. y may be x.
template <class T>
void group_norm_forward(const GroupNormSizes& s, const T* x, const float* scale, const float* shift,
                        T* y, float* mean, float* variance, On on);
// dx may be dy.
template <class T>
void group_norm_input_gradient(const GroupNormSizes& s, const T* x, const float* mean,
                               const float* variance, const float* scale, const T* dy, T* dx,
                               On on);
template <class T>
std::size_t group_norm_scratch_bytes(const GroupNormSizes& s);
// Before dx where that is dy. dscale or dshift may be null.
template <class T>
void group_norm_parameter_gradients(const GroupNormSizes& s, const T* x, const float* mean,
                                    const float* variance, const T* dy, float* dscale,
                                    float* dshift, void* scratch, On on);

struct RmsNormSizes {
  std::int64_t rows = 0, features = 0;
  float epsilon = 1e-6f;
  bool one_plus = false;
};

// x (rows, features); square (rows), the mean of squares, may be null. y may be x.
template <class T>
void rms_norm_forward(const RmsNormSizes& s, const T* x, const float* scale, T* y, float* square,
                      On on);
template <class T>
void rms_norm_input_gradient(const RmsNormSizes& s, const T* x, const float* square,
                             const float* scale, const T* dy, T* dx, On on);
template <class T>
std::size_t rms_norm_scratch_bytes(const RmsNormSizes& s);
template <class T>
void rms_norm_scale_gradient(const RmsNormSizes& s, const T* x, const float* square, const T* dy,
                             float* dscale, void* scratch, On on);

}  // namespace hetpipe::cuda
