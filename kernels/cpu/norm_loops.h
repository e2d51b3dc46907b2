// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Normalisation of rows (layer norm, RMS norm, softmax) and of groups of channels, in the calling
// thread.
// Sums as in loop_sums.h, all else in float.
namespace hetpipe::loops {

// Each row of x (rows, features): its mean and biased variance; y = (x - mean) * inverse * scale +
// shift, inverse = 1 / sqrt(variance + epsilon).
void layer_norm_rows(float* y, const float* x, const float* scale, const float* shift, float* mean,
                     float* variance, double epsilon, std::int64_t rows, std::int64_t features);
// dx = inverse * (g - mean(g) - n * mean(g * n)) with g = dy*scale, n = (x - mean) * inverse; dx
// and dy may be one array.
void layer_norm_rows_backward(float* dx, const float* dy, const float* x, const float* mean,
                              const float* inverse, const float* scale, std::int64_t rows,
                              std::int64_t features);
// products += dy * n, sums += dy down the rows.
void layer_norm_parameter_sums(double* products, double* sums, const float* dy, const float* x,
                               const float* mean, const float* inverse, std::int64_t rows,
                               std::int64_t features);

// The same with the mean of squares in place of mean and variance: y = x * inverse * scale.
void rms_norm_rows(float* y, const float* x, const float* scale, float* squares, double epsilon,
                   std::int64_t rows, std::int64_t features);
void rms_norm_rows_backward(float* dx, const float* dy, const float* x, const float* inverse,
                            const float* scale, std::int64_t rows, std::int64_t features);
void rms_norm_parameter_sums(double* products, const float* dy, const float* x,
                             const float* inverse, std::int64_t rows, std::int64_t features);

// dx = dy*factor - shift - (x - mean)*slope by channel; dx and dy may be one array.
void group_norm_backward(float* dx, const float* dy, const float* x, const float* mean,
                         const float* factor, const float* shift, const float* slope,
                         std::int64_t rows, std::int64_t channels);

// A row's largest number, the first of equals, and the sum of e^(x - largest), whose terms go to
// `exponentials` unless that is null.
struct SoftmaxSum {
  std::int64_t best = 0;
  float largest = 0;
  double sum = 0;
};
SoftmaxSum softmax_sum(float* exponentials, const float* x, std::int64_t count);
// dx = (p - target) / denominator * scale
void softmax_loss_gradient(float* dx, const float* p, float target, float denominator, float scale,
                           std::int64_t count);

}  // namespace hetpipe::loops
