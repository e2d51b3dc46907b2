// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cpu/loops.h"
#include "kernels/cpu/threads.h"

// Sums down the rows of an array (rows, columns): in double over pieces of rows, whose sums are
// added in their order. So many digits are lost as in one addition, however many rows there are,
// and no bit depends on the number of threads.
namespace hetpipe {

// A thread sums about so many elements, and no fewer rows: all pieces' sums stay small beside the
// array.
inline std::int64_t rows_of_piece(std::int64_t columns) {
  return std::max<std::int64_t>(256, (1 << 15) / columns);
}

// body(first row, rows) for every piece.
template <class Body>
void for_each_piece_of_rows(int threads, std::int64_t rows, std::int64_t columns,
                            const Body& body) {
  const std::int64_t piece = rows_of_piece(columns);
  parallel_for(threads, (rows + piece - 1) / piece,
               [&](std::int64_t p) { body(p * piece, std::min(piece, rows - p * piece)); });
}

// `sums` of each column, one kind of sum after another. add(sums of a piece, first row, rows) adds
// to what is there.
template <class Add>
std::vector<double> sums_of_rows(int threads, std::int64_t rows, std::int64_t columns, int sums,
                                 const Add& add) {
  const std::int64_t piece = rows_of_piece(columns);
  const auto width = static_cast<std::size_t>(sums * columns);
  std::vector<double> parts(static_cast<std::size_t>((rows + piece - 1) / piece) * width);
  for_each_piece_of_rows(threads, rows, columns, [&](std::int64_t first, std::int64_t count) {
    add(parts.data() + static_cast<std::size_t>(first / piece) * width, first, count);
  });
  for (std::size_t i = width; i < parts.size(); ++i) parts[i % width] += parts[i];
  parts.resize(width);
  return parts;
}

// dbias = the sums down the columns of dy (rows, columns).
inline void sum_bias_gradient(int threads, std::int64_t rows, std::int64_t columns, const float* dy,
                              float* dbias) {
  const std::vector<double> sums = sums_of_rows(
      threads, rows, columns, 1, [&](double* own, std::int64_t first, std::int64_t count) {
        loops::column_sums(own, dy + first * columns, count, columns);
      });
  for (std::size_t c = 0; c < sums.size(); ++c) dbias[c] = static_cast<float>(sums[c]);
}

}  // namespace hetpipe
