// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/matrix_operand.h"

#include "kernels/cpu/loops.h"
#include "kernels/reference/algebra.h"

namespace hetpipe {

void multiply_to(const MatrixTarget& target, std::int64_t rows, std::int64_t columns,
                 std::int64_t inner, const Matrix& a, const Matrix& b, float beta, float alpha) {
  if (target.transposed) {
    multiply(columns, rows, inner, transposed(b), transposed(a), beta, target.data, target.step,
             alpha);
  } else {
    multiply(rows, columns, inner, a, b, beta, target.data, target.step, alpha);
  }
}

MatrixOperand::MatrixOperand(const Operand& operand, const LoopNumbers& batch, std::int64_t rows,
                             std::int64_t columns, std::int64_t sample_elements)
    : rows_(rows), columns_(columns), by_sample_(sample_elements) {
  const std::size_t loops = batch.size();
  const LoopNumbers outer(operand.strides.begin(),
                          operand.strides.begin() + static_cast<std::ptrdiff_t>(loops));
  places_ = reference::sums_of(batch, outer);
  for (std::int64_t& p : places_) p += operand.offset;
  row_stride_ = operand.strides[loops];
  column_stride_ = operand.strides[loops + 1];
  if (!operand.table.empty()) {
    table_ = operand.table.data();
    entries_ = reference::sums_of(
        batch, LoopNumbers(operand.table_strides.begin(),
                           operand.table_strides.begin() + static_cast<std::ptrdiff_t>(loops)));
    row_entries_ = operand.table_strides[loops];
    column_entries_ = operand.table_strides[loops + 1];
  }
  decide();
}

MatrixOperand::MatrixOperand(const LoopNumbers& strides, const LoopNumbers& batch,
                             std::int64_t rows, std::int64_t columns, std::int64_t sample_elements)
    : MatrixOperand(Operand{Source::input, 0, 0, strides}, batch, rows, columns, sample_elements) {}

// A matrix as it lies has one stride of 1 and another that spans its lines.
void MatrixOperand::decide() {
  packed_ = false;
  if (table_ == nullptr && (column_stride_ == 1 || columns_ == 1) &&
      (row_stride_ >= columns_ || rows_ == 1)) {
    step_ = rows_ == 1 ? columns_ : row_stride_;
  } else if (table_ == nullptr && (row_stride_ == 1 || rows_ == 1) &&
             (column_stride_ >= rows_ || columns_ == 1)) {
    transposed_ = true;
    step_ = columns_ == 1 ? rows_ : column_stride_;
  } else {
    packed_ = true;
    step_ = columns_;
  }
}

Matrix MatrixOperand::view(const float* base, std::int64_t sample, std::int64_t batch,
                           float* scratch) const {
  base += sample * by_sample_;
  if (!packed_) return {base + places_[static_cast<std::size_t>(batch)], step_, transposed_};
  each(batch, [&](std::int64_t place, std::int64_t i) { scratch[i] = base[place]; });
  return {scratch, step_, false};
}

MatrixTarget MatrixOperand::target(float* base, std::int64_t sample, std::int64_t batch) const {
  return {base + sample * by_sample_ + places_[static_cast<std::size_t>(batch)], step_,
          transposed_};
}

void MatrixOperand::store(float* base, std::int64_t sample, std::int64_t batch,
                          const float* values) const {
  base += sample * by_sample_;
  each(batch, [&](std::int64_t place, std::int64_t i) { base[place] = values[i]; });
}

void MatrixOperand::add(double* sums, std::int64_t batch, const float* values) const {
  each(batch,
       [&](std::int64_t place, std::int64_t i) { sums[place] += static_cast<double>(values[i]); });
}

OperandReads reads_of(std::int64_t elements, const std::vector<const MatrixOperand*>& operands) {
  std::vector<std::uint8_t> counts(static_cast<std::size_t>(elements), 0);
  for (const MatrixOperand* const o : operands) {
    for (std::int64_t b = 0; b < o->batches(); ++b) {
      o->each(b, [&](std::int64_t place, std::int64_t) {
        std::uint8_t& c = counts[static_cast<std::size_t>(place)];
        if (c < 2) ++c;
      });
    }
  }
  OperandReads r;
  for (const std::uint8_t c : counts) {
    r.once = r.once && c <= 1;
    r.all = r.all && c >= 1;
  }
  return r;
}

}  // namespace hetpipe
