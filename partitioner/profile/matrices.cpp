// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/matrices.h"

#include <algorithm>

namespace hetpipe {
namespace {

// X X^T, its square, and what X is moved by; where elements are narrow, X in them, and what it is
// moved by as floats.
std::int64_t orthogonal_bytes(std::int64_t shorter, std::int64_t count, bool narrow) {
  const std::int64_t elements = 2 * shorter * shorter + count;
  return narrow ? 2 * (elements + count) + 4 * count : 4 * elements;
}

}  // namespace

// With X of the shorter side m and the longer side n: X X^T and its product with X, of m m n
// multiplications and additions each, and a square of m m m.
double orthogonal_flops(const MatrixSides& matrix) {
  const auto m = static_cast<double>(std::min(matrix.rows, matrix.columns));
  const auto n = static_cast<double>(std::max(matrix.rows, matrix.columns));
  return kOrthogonalSteps * 2 * m * m * (2 * n + m);
}

std::int64_t scratch_bytes(const MatrixSides& matrix, Updates updates, bool narrow) {
  const auto [rows, columns] = matrix;
  switch (updates) {
    case Updates::plain:
      return 0;
    case Updates::damped:  // a vector each of inputs and outputs, and sums of blocks of rows
      return 4 * (rows + columns + (rows + kDampingRows - 1) / kDampingRows * columns);
    case Updates::orthogonal:
      return orthogonal_bytes(std::min(rows, columns), rows * columns, narrow);
  }
  return 0;
}

}  // namespace hetpipe
