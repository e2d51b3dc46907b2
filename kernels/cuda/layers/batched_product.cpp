// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/batched_product.h"

#include "kernels/reference/algebra.h"

namespace hetpipe::cuda {
namespace {

Product layout_of(const BatchedProduct::Extents& e, const MatrixForm& a, const MatrixForm& b,
                  const MatrixForm& c) {
  if (c.transposed) {
    return layout_of({e.batch, e.columns, e.rows, e.inner}, b.turned(), a.turned(), c.turned());
  }
  return {.rows = e.rows,
          .columns = e.columns,
          .inner = e.inner,
          .transposed_a = a.transposed,
          .transposed_b = b.transposed,
          .step_a = a.step,
          .step_b = b.step,
          .step_c = c.step,
          .batch = e.batch,
          .batch_a = e.batch == 1 ? 0 : a.distance,
          .batch_b = e.batch == 1 ? 0 : b.distance,
          .batch_c = e.batch == 1 ? 0 : c.distance};
}

}  // namespace

std::int64_t MatrixLoops::batches() const { return reference::product_of(batch); }
std::int64_t MatrixLoops::row_count() const { return reference::product_of(rows); }
LoopNumbers MatrixLoops::all() const { return reference::joined({batch, rows, {columns}}); }

std::optional<MatrixForm> matrix_form(const MatrixLoops& loops, const LoopNumbers& strides,
                                      std::int64_t offset, std::int64_t samples,
                                      std::int64_t by_sample) {
  const auto rows_at = strides.begin() + static_cast<std::ptrdiff_t>(loops.batch.size());
  const auto column_at = rows_at + static_cast<std::ptrdiff_t>(loops.rows.size());
  LoopNumbers outer{by_sample};
  outer.insert(outer.end(), strides.begin(), rows_at);
  const StridedLoops batch = merged_loops(reference::joined({{samples}, loops.batch}), {outer});
  const StridedLoops rows = merged_loops(loops.rows, {LoopNumbers(rows_at, column_at)});
  if (batch.extents.size() != 1 || rows.extents.size() != 1) return std::nullopt;
  const std::int64_t row_count = rows.run(), columns = loops.columns;
  const std::int64_t row_stride = rows.inner_stride(0), column_stride = *column_at;
  MatrixForm form{.offset = offset};
  if ((column_stride == 1 || columns == 1) && (row_stride >= columns || row_count == 1)) {
    form.step = row_count == 1 ? columns : row_stride;
  } else if ((row_stride == 1 || row_count == 1) && (column_stride >= row_count || columns == 1)) {
    form.step = columns == 1 ? row_count : column_stride;
    form.transposed = true;
  } else {
    return std::nullopt;
  }
  form.distance = batch.inner_stride(0);
  if (form.distance < 0) return std::nullopt;
  return form;
}

BatchedProduct::BatchedProduct(LayerContext& context, const Extents& extents, const MatrixForm& a,
                               const MatrixForm& b, const MatrixForm& c, ElementType result)
    : context_(context),
      swapped_(c.transposed),
      a_offset_(a.offset * static_cast<std::int64_t>(bytes_of(element_of(context.precision)))),
      b_offset_(b.offset * static_cast<std::int64_t>(bytes_of(element_of(context.precision)))),
      c_offset_(c.offset * static_cast<std::int64_t>(bytes_of(result))),
      product_(context.libraries, layout_of(extents, a, b, c), {context.precision, result}) {}

void BatchedProduct::run(Stream& stream, const void* a, const void* b, void* c, float alpha) {
  const void* const first = static_cast<const std::byte*>(a) + a_offset_;
  const void* const second = static_cast<const std::byte*>(b) + b_offset_;
  const Workspace<> workspace(context_, stream, static_cast<std::int64_t>(product_.workspace()));
  product_.run(handle(stream), {.a = swapped_ ? second : first,
                                .b = swapped_ ? first : second,
                                .c = static_cast<std::byte*>(c) + c_offset_,
                                .workspace = workspace.get(),
                                .alpha = alpha});
}

}  // namespace hetpipe::cuda
