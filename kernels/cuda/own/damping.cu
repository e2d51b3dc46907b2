// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/damping.h"

#include "kernels/cuda/own/flat.h"
#include "kernels/cuda/own/pack.h"
#include "kernels/cuda/own/reduce.h"
#include "kernels/optimizer_step.h"

// Compiled without contraction.
namespace hetpipe::cuda {
namespace {

static_assert(kWarp == kDampLanes);
constexpr int kRows = kThreads / kWarp;  // of a block, one for each warp

struct Start {
  float* x;
  int direction;
  std::int64_t step;
  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    x[i] = damp_start(i, direction, step);
  }
};

// sums[r] = d[r] v.
HETPIPE_KERNEL void along_rows(float* sums, const float* d, const float* v, std::int64_t rows,
                               std::int64_t columns) {
  const std::int64_t row =
      std::int64_t{blockIdx.x} * kRows + static_cast<std::int64_t>(threadIdx.x) / kWarp;
  if (row >= rows) return;  // all of a warp, or none
  const float* const of = d + row * columns;
  float sum = 0;
  for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) % kWarp; c < columns; c += kWarp) {
    sum += of[c] * v[c];
  }
  sum = warp_reduce(sum, Plus());
  if (threadIdx.x % kWarp == 0) sums[row] = sum;
}

// partial (blocks of rows, columns), for total_of_blocks.
HETPIPE_KERNEL void down_columns(float* partial, const float* d, const float* v, std::int64_t rows,
                                 std::int64_t columns, std::int64_t tiles) {
  const std::int64_t column = blockIdx.x % tiles * kThreads + threadIdx.x;
  const std::int64_t block = blockIdx.x / tiles;
  if (column >= columns) return;
  const std::int64_t first = block * kDampRows;
  const std::int64_t end = first + kDampRows < rows ? first + kDampRows : rows;
  float sum = 0;
  for (std::int64_t r = first; r < end; ++r) {
    sum += d[r * columns + column] * v[r];
  }
  partial[block * columns + column] = sum;
}

HETPIPE_KERNEL void total_of_blocks(float* sums, const float* partial, std::int64_t blocks,
                                    std::int64_t columns) {
  const std::int64_t column = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (column >= columns) return;
  float sum = 0;
  for (std::int64_t b = 0; b < blocks; ++b) sum += partial[b * columns + column];
  sums[column] = sum;
}

struct Unit {
  float* x;
  const double* squares;
  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    x[i] *= unit_factor(*squares);
  }
};

struct Subtract {
  float* d;
  const float* x;  // of inputs
  const float* z;  // of outputs
  float factor;
  std::int64_t columns;
  bool inputs_first;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t) const {
    const std::int64_t row = i / columns, column = i % columns;
    const float out = factor * z[inputs_first ? column : row];
    d[i] -= out * x[inputs_first ? row : column];
  }
};

std::int64_t blocks_of(std::int64_t rows) { return (rows + kDampRows - 1) / kDampRows; }

class Sums {
 public:
  Sums(const float* d, const DampedMatrix& matrix, float* partial, On on)
      : d_(d), matrix_(matrix), partial_(partial), on_(on) {}

  void of_outputs(float* sums, const float* v) const { take(sums, v, !matrix_.inputs_first); }
  void of_inputs(float* sums, const float* v) const { take(sums, v, matrix_.inputs_first); }

 private:
  void take(float* sums, const float* v, bool along) const {
    const auto [rows, columns, first] = matrix_;
    if (along) {
      launch(along_rows, one_each((rows + kRows - 1) / kRows), kThreads, on_, sums, d_, v, rows,
             columns);
      return;
    }
    const std::int64_t tiles = (columns + kThreads - 1) / kThreads;
    launch(down_columns, one_each(tiles * blocks_of(rows)), kThreads, on_, partial_, d_, v, rows,
           columns, tiles);
    launch(total_of_blocks, one_each(tiles), kThreads, on_, sums, partial_, blocks_of(rows),
           columns);
  }

  const float* d_;
  DampedMatrix matrix_;
  float* partial_;
  On on_;
};

}  // namespace

std::int64_t damp_scratch(const DampedMatrix& m) {
  return m.rows + m.columns + blocks_of(m.rows) * m.columns;
}

void damp(float* d, const DampedMatrix& m, const DampOptions& options, double* squares,
          float* scratch, On on) {
  if (m.rows * m.columns == 0) return;
  float* const x = scratch;
  float* const z = x + m.inputs();
  const Sums sums(d, m, z + m.outputs(), on);
  for (int k = 0; k < options.directions_of(m); ++k) {
    each<1>(Start{x, k, options.step}, m.inputs(), on);
    sums.of_outputs(z, x);
    sums.of_inputs(x, z);
    sum_of_squares(squares, x, m.inputs(), squares + 1, Doubles::fast, on);  // few
    each<1>(Unit{x, squares}, m.inputs(), on);
    sums.of_outputs(z, x);
    each<1>(Subtract{d, x, z, options.factor, m.columns, m.inputs_first}, m.rows * m.columns, on);
  }
}

}  // namespace hetpipe::cuda
