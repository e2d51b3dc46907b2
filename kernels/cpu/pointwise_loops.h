// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The loops of pointwise layers, vectorised. All run in the calling thread; a result may be one of
// the arguments.
namespace hetpipe::loops {

// out[i] = operator(x[i], y[i], z[i]); what the operator does not take may be any array.
using PointwiseLoop = void (*)(float* out, const float* x, const float* y, const float* z,
                               std::int64_t count);
// Of a row of kernels/pointwise_operators.h.
PointwiseLoop pointwise_loop(std::int16_t row);
// out[i] = y[i] * operator(x[i]), of a row that only derivatives use; null of others.
PointwiseLoop scaled_loop(std::int16_t row);

// to[i] = from[i * stride]
void load_strided(float* to, const float* from, std::int64_t stride, std::int64_t count);
// to[i] = from[i * stride + table[i * table_stride]]
void load_by_table(float* to, const float* from, std::int64_t stride, const std::int32_t* table,
                   std::int64_t table_stride, std::int64_t count);
// to[i * stride] = from[i], or +=
void store_strided(float* to, std::int64_t stride, const float* from, std::int64_t count);
void add_strided(float* to, std::int64_t stride, const float* from, std::int64_t count);

// Sums in double, of all strides: sums[i * stride] += from[i].
void sum_strided(double* sums, std::int64_t stride, const float* from, std::int64_t count);
void sum_by_table(double* sums, std::int64_t stride, const std::int32_t* table,
                  std::int64_t table_stride, const float* from, std::int64_t count);
void round_sums(float* to, const double* sums, std::int64_t count);

}  // namespace hetpipe::loops
