// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Vectorised loops of softmax, reductions and cumulative sums. Sums of a row are in lanes whose
// number does not depend on the width of vectors.
namespace hetpipe::loops {

float row_maximum(const float* x, std::int64_t count);  // NaN where one is
float row_minimum(const float* x, std::int64_t count);
// most[i] = the larger of it and x[i]; likewise.
void raise(float* most, const float* x, std::int64_t count);
void lower(float* least, const float* x, std::int64_t count);

// y = e^(x - shift); the sum of y.
double shifted_exponentials(float* y, const float* x, float shift, std::int64_t count);
// The sum of e^(x - shift).
double sum_of_exponentials(const float* x, float shift, std::int64_t count);
// y = x - shift
void shift_row(float* y, const float* x, float shift, std::int64_t count);
// The softmax of a row, in place too; zeros where all are -inf and `safe`, else NaN.
void softmax_row(float* y, const float* x, std::int64_t count, bool safe);

double row_sum(const float* x, std::int64_t count);
double row_dot(const float* x, const float* y, std::int64_t count);
// dx = y (dy - mean); dx may be dy.
void softmax_gradient_row(float* dx, const float* y, const float* dy, float mean,
                          std::int64_t count);
// dx = dy - e^y sum
void log_softmax_gradient_row(float* dx, const float* y, const float* dy, float sum,
                              std::int64_t count);

// y += x
void add_row(float* y, const float* x, std::int64_t count);
// y = kept ? x * factor : 0; y may be x.
void drop_row(float* y, const float* x, const std::uint8_t* kept, float factor, std::int64_t count);

// sums += x; y = sums.
void accumulate_row(float* y, double* sums, const float* x, std::int64_t count);

// dx[i] = x[i] is best[i * step] ? gradient[i * step] : 0, a NaN being one; step 0 or 1.
void give_to_best(float* dx, const float* x, const float* best, const float* gradient,
                  std::int64_t step, std::int64_t count);
// counts[i * step] += x[i] is best[i * step]
void count_best(float* counts, const float* x, const float* best, std::int64_t step,
                std::int64_t count);

}  // namespace hetpipe::loops
