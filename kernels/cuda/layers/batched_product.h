// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "kernels/cuda/blas/product.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/strided_loops.h"

// Products of matrices that lie in tensors seen through strides: one call of cuBLASLt for all.
namespace hetpipe::cuda {

// How matrices (rows, columns) lie: row by row, or transposed, column by column, from one row
// (column) to the next `step` elements and from one matrix to the next `distance`; the first begins
// at `offset`.
struct MatrixForm {
  std::int64_t step = 0;
  std::int64_t distance = 0;
  std::int64_t offset = 0;
  bool transposed = false;

  MatrixForm turned() const { return {step, distance, offset, !transposed}; }
};
// One behind the other, without gaps.
inline MatrixForm plain_form(std::int64_t rows, std::int64_t columns) {
  return {columns, rows * columns, 0, false};
}

// Loops over matrices, over their rows (several that together count them) and one over columns.
struct MatrixLoops {
  LoopNumbers batch, rows;
  std::int64_t columns = 1;

  std::int64_t batches() const;
  std::int64_t row_count() const;
  std::int64_t elements() const { return batches() * row_count() * columns; }
  LoopNumbers all() const;
};
// The form of a tensor at these loops, `strides` having one for each of them, of `samples` samples
// at a distance of `by_sample`; null where it has none.
std::optional<MatrixForm> matrix_form(const MatrixLoops& loops, const LoopNumbers& strides,
                                      std::int64_t offset, std::int64_t samples,
                                      std::int64_t by_sample);

// C = alpha * A · B of `batch` matrices each: A (rows, inner), B (inner, columns).
class BatchedProduct {
 public:
  struct Extents {
    std::int64_t batch, rows, columns, inner;
  };
  BatchedProduct(LayerContext& context, const Extents& extents, const MatrixForm& a,
                 const MatrixForm& b, const MatrixForm& c, ElementType result);

  void prepare() { product_.workspace(); }
  // The tensors' first elements: offsets are the forms'.
  void run(Stream& stream, const void* a, const void* b, void* c, float alpha);

 private:
  LayerContext& context_;
  bool swapped_;  // the transpose is computed: C lies column by column
  std::int64_t a_offset_, b_offset_, c_offset_;  // bytes
  MatrixProduct product_;
};

}  // namespace hetpipe::cuda
