// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/algebra.h"
#include "kernels/cpu/onednn.h"
#include "kernels/strided_loops.h"

// Operands over the loops batch..., rows, columns as matrices for multiply(): as they lie, where
// one of the two strides is 1, else packed.
namespace hetpipe {

// Where a product is written: C (rows, columns), or its transpose.
struct MatrixTarget {
  float* data = nullptr;
  std::int64_t step = 0;
  bool transposed = false;
};
// target = alpha a b + beta target
void multiply_to(const MatrixTarget& target, std::int64_t rows, std::int64_t columns,
                 std::int64_t inner, const Matrix& a, const Matrix& b, float beta, float alpha);

inline Matrix transposed(Matrix m) {
  m.transposed = !m.transposed;
  return m;
}

class MatrixOperand {
 public:
  MatrixOperand() = default;
  // `sample_elements`: from sample to sample; 0 where the operand is the same for all.
  MatrixOperand(const Operand& operand, const LoopNumbers& batch, std::int64_t rows,
                std::int64_t columns, std::int64_t sample_elements);
  // The place of a matrix that an output lies in; `strides` over batch..., rows, columns.
  MatrixOperand(const LoopNumbers& strides, const LoopNumbers& batch, std::int64_t rows,
                std::int64_t columns, std::int64_t sample_elements);

  std::int64_t floats() const { return rows_ * columns_; }
  std::int64_t batches() const { return static_cast<std::int64_t>(places_.size()); }
  bool packed() const { return packed_; }
  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }

  // Matrix number `batch` of a sample; `scratch` of floats(), used where packed().
  Matrix view(const float* base, std::int64_t sample, std::int64_t batch, float* scratch) const;
  // The same place to be written; not where packed().
  MatrixTarget target(float* base, std::int64_t sample, std::int64_t batch) const;
  // Plain values (rows, columns) to their places in a sample's gradient: stored, or added.
  void store(float* base, std::int64_t sample, std::int64_t batch, const float* values) const;
  void add(double* sums, std::int64_t batch, const float* values) const;
  // Calls visit(place, element of the plain matrix).
  template <class Visit>
  void each(std::int64_t batch, const Visit& visit) const {
    const std::int64_t base = places_[static_cast<std::size_t>(batch)];
    const std::int64_t entry = table_ == nullptr ? 0 : entries_[static_cast<std::size_t>(batch)];
    for (std::int64_t r = 0; r < rows_; ++r)
      for (std::int64_t c = 0; c < columns_; ++c) {
        std::int64_t place = base + r * row_stride_ + c * column_stride_;
        if (table_ != nullptr) place += table_[entry + r * row_entries_ + c * column_entries_];
        visit(place, r * columns_ + c);
      }
  }

 private:
  void decide();

  std::int64_t rows_ = 0, columns_ = 0, row_stride_ = 0, column_stride_ = 0, by_sample_ = 0;
  LoopNumbers places_;  // of each batch's first element
  const std::int32_t* table_ = nullptr;
  LoopNumbers entries_;  // of each batch, in the table
  std::int64_t row_entries_ = 0, column_entries_ = 0;
  bool packed_ = false, transposed_ = false;
  std::int64_t step_ = 0;
};

// How the operands of a layer read one input: each element at most once, and all of them?
struct OperandReads {
  bool once = true, all = true;
};
OperandReads reads_of(std::int64_t elements, const std::vector<const MatrixOperand*>& operands);

}  // namespace hetpipe
