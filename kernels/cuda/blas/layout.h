// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>

// Our matrices are row by row, the library's column by column. The memory of one is the memory of
// the other's transpose, so C = A·B is asked for as Cᵀ = Bᵀ·Aᵀ: nothing is moved, the factors
// change places. This is the arithmetic of that, and knows no library.
namespace hetpipe::cuda {

// C (rows, columns) = A (rows, inner) · B (inner, columns), each row by row in memory. A factor
// that is stored transposed lies there as (inner, rows) or (columns, inner).
struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t inner = 0;
  bool transposed_a = false;  // as stored
  bool transposed_b = false;
  // From one row in memory to the next, in elements; 0: rows lie one behind the other.
  std::int64_t step_a = 0;
  std::int64_t step_b = 0;
  std::int64_t step_c = 0;
  // Several products of one form, at equal distances (in elements) from one another.
  std::int64_t batch = 1;
  std::int64_t batch_a = 0;
  std::int64_t batch_b = 0;
  std::int64_t batch_c = 0;

  bool operator==(const Product&) const = default;
};

// A matrix column by column: element (i, j) at i + j * step.
struct ColumnMajor {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t step = 0;
  std::int64_t batch = 0;  // from one of several to the next

  bool operator==(const ColumnMajor&) const = default;
};

// D (m, n) = op(first) (m, k) · op(second) (k, n), column by column. `first` is our B, `second` our
// A, `result` our C.
struct ColumnMajorProduct {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_first = false;
  bool transpose_second = false;
  ColumnMajor first, second, result;
};

constexpr ColumnMajorProduct column_major(const Product& p) {
  // (rows, columns) row by row is (columns, rows) column by column.
  const auto stored = [](std::int64_t rows, std::int64_t columns, bool transposed,
                         std::int64_t step, std::int64_t batch) {
    if (transposed) std::swap(rows, columns);
    return ColumnMajor{columns, rows, step != 0 ? step : columns, batch};
  };
  return {p.columns,
          p.rows,
          p.inner,
          p.transposed_b,
          p.transposed_a,
          stored(p.inner, p.columns, p.transposed_b, p.step_b, p.batch_b),
          stored(p.rows, p.inner, p.transposed_a, p.step_a, p.batch_a),
          stored(p.rows, p.columns, false, p.step_c, p.batch_c)};
}

}  // namespace hetpipe::cuda
