// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/dropout.h"
#include "kernels/optimizer_step.h"
#include "kernels/shape.h"
#include "kernels/window.h"

// The CPU device's own loops, written so that the compiler vectorises them across elements or
// channels: every element sees the same float operations in the same order as in reference/. All
// run in the calling thread on the range they are given.

// One function per width of vectors, chosen when the program is loaded: one binary runs everywhere.
// No value changes: an element sees the same operations in any width, and nothing is contracted.
// Sanitizers are not ready yet when it is chosen.
#if defined(__x86_64__) && !defined(HETPIPE_SANITIZED)
#define HETPIPE_EVERY_WIDTH \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define HETPIPE_EVERY_WIDTH
#endif

// Before a loop whose input and output may be one array: no element needs another.
#if defined(__GNUC__) && !defined(__clang__)
#define HETPIPE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define HETPIPE_INDEPENDENT
#endif

namespace hetpipe::loops {

void fill(float* x, float value, std::int64_t count);
void add(float* y, const float* x, std::int64_t count);                  // y += x
void sum(float* z, const float* x, const float* y, std::int64_t count);  // z = x + y
void scale(float* y, float factor, std::int64_t count);                  // y *= factor

void sgd(float* delta, const float* gradient, const float* weights, float rate, float decay,
         std::int64_t count);
void sgd_momentum(float* delta, float* velocity, const float* gradient, const float* weights,
                  const SgdOptions& options, std::int64_t count);
void adam(float* delta, float* first, float* second, const float* gradient, const float* weights,
          const AdamStep& step, std::int64_t count);

void look_ahead(float* ahead, const float* weights, const float* x, float factor,
                std::int64_t count);
void rmsprop(float* delta, float* second, const float* gradient, const float* weights,
             const RmspropOptions& options, std::int64_t count);
void look_ahead_adam(float* ahead, const float* weights, const float* first, const float* second,
                     const AdamStep& step, float factor, std::int64_t count);

// Parts of Device::damp over d (rows, columns): sums along rows and down `count` columns from d on,
// of products with v; and d -= of_row x of_column.
void damp_along_rows(float* sums, const float* d, const float* v, std::int64_t rows,
                     std::int64_t columns);
void damp_down_columns(float* sums, const float* d, const float* v, std::int64_t rows,
                       std::int64_t columns, std::int64_t count);
void damp_subtract(float* d, const float* of_row, const float* of_column, std::int64_t rows,
                   std::int64_t columns);

// kept[i] = draw i under `key` is at least `rate`: one sample of dropout.
void dropout_draw(std::uint8_t* kept, std::uint64_t key, float rate, std::int64_t count);
// y and x may be one array, as in sum.
void dropout_apply(float* y, const float* x, const std::uint8_t* kept, float factor,
                   std::int64_t count);
void alpha_dropout_forward(float* y, const float* x, const std::uint8_t* kept,
                           const AlphaDropoutMap& map, std::int64_t count);

// Batch norm of x (rows, channels), all else by channel. Sums are added to what is there, in double
// (eight rows at a time in float).
//
// sum += x - origin, squares += (x - origin)^2
void deviation_sums(double* sum, double* squares, const float* x, const float* origin,
                    std::int64_t rows, std::int64_t channels);
// y = (x - mean)*factor + shift
void normalise(float* y, const float* x, const float* mean, const float* factor, const float* shift,
               std::int64_t rows, std::int64_t channels);
// sum += dy, products += dy*(x - mean)
void gradient_sums(double* sum, double* products, const float* dy, const float* x,
                   const float* mean, std::int64_t rows, std::int64_t channels);
// dx = factor*(dy - shift - (x - mean)*slope); dx and dy may be one array.
void normalise_backward(float* dx, const float* dy, const float* x, const float* mean,
                        const float* factor, const float* shift, const float* slope,
                        std::int64_t rows, std::int64_t channels);
// sum += x down the rows of (rows, columns), likewise.
void column_sums(double* sum, const float* x, std::int64_t rows, std::int64_t columns);

// Each row of y (rows, columns) += x (columns).
void add_to_rows(float* y, const float* x, std::int64_t rows, std::int64_t columns);

// to (columns, rows) = from (rows, columns) transposed.
void transpose(float* to, const float* from, std::int64_t rows, std::int64_t columns);

// Weights (outputs, inputs, taps) as (inputs, outputs, taps), the taps from last to first: of
// inputs [first, end).
void turn_round(float* to, const float* from, std::int64_t outputs, std::int64_t inputs,
                std::int64_t taps, std::int64_t first, std::int64_t end);

// One output row (W', C) of a pooling: `image` is one sample (H, W, C).
void average_pool_row(float* y, const float* image, const Window& window, const Shape& in,
                      bool count_padding, std::int64_t row);
// One sample's input gradient (H, W, C), overwritten.
void average_pool_backward(float* dx, const float* dy, const Window& window, const Shape& in,
                           bool count_padding);

// One sample: y (C) = mean over x (pixels, C), and back.
void global_average_forward(float* y, const float* x, std::int64_t pixels, std::int64_t channels);
void global_average_backward(float* dx, const float* dy, std::int64_t pixels,
                             std::int64_t channels);

}  // namespace hetpipe::loops
