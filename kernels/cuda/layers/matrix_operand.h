// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/layers/batched_product.h"
#include "kernels/cuda/layers/packed_arrays.h"
#include "kernels/cuda/own/convert.h"
#include "kernels/cuda/own/strided.h"

namespace hetpipe::cuda {

// A copy of what `operand` reads at the loops of a sample to places `to_strides` of another tensor,
// whose samples are `to_by_sample` apart. `table` is the operand's in device memory. UserError
// where it takes too many loops.
StridedCopy strided_view(const Operand& operand, std::int64_t by_sample, const std::int32_t* table,
                         const LoopNumbers& extents, const LoopNumbers& to_strides,
                         std::int64_t to_by_sample);
// The other way round.
inline StridedCopy reversed(StridedCopy copy) {
  std::swap(copy.from, copy.to);
  return copy;
}
// Strides of a tensor that lies in the order of these loops.
LoopNumbers plain_strides_of(const LoopNumbers& extents);
// An operand's table, kept in device memory; empty where it has none.
KeptArrays kept_table(const LayerContext& context, const Operand& operand);

// An operand as the matrices of T of one BatchedProduct: as they lie, where they have a form, else
// copied one behind the other.
template <class T>
class MatrixOperand {
 public:
  // `operand` has a stride for each of the loops; samples: of a call. by_sample is 0 for a
  // parameter or constant, which has `elements` numbers.
  MatrixOperand(LayerContext& context, const Operand& operand, const MatrixLoops& loops,
                std::int64_t samples, std::int64_t by_sample, std::int64_t elements = 0)
      : context_(context),
        floats_(operand.source != Source::input),
        elements_(elements),
        table_(kept_table(context, operand)) {
    MatrixLoops copied = loops;
    Operand view = operand;
    // One matrix for all products is copied once.
    const auto batches = static_cast<std::ptrdiff_t>(loops.batch.size());
    const auto none = [](std::int64_t stride) { return stride == 0; };
    shared_ = by_sample == 0 &&
              std::all_of(view.strides.begin(), view.strides.begin() + batches, none) &&
              (operand.table.empty() ||
               std::all_of(view.table_strides.begin(), view.table_strides.begin() + batches, none));
    if (shared_) {
      copied.batch.clear();
      view.strides.erase(view.strides.begin(), view.strides.begin() + batches);
      if (!operand.table.empty()) {
        view.table_strides.erase(view.table_strides.begin(), view.table_strides.begin() + batches);
      }
    }
    std::optional<MatrixForm> form;
    if (operand.table.empty()) {
      form = matrix_form(loops, operand.strides, operand.offset, samples, by_sample);
    }
    lies_ = form.has_value();
    form_ = lies_ ? *form : plain_form(loops.row_count(), loops.columns);
    if (!lies_ && shared_) form_.distance = 0;
    copied_ = copied.elements();
    if (!lies_) {
      copy_ = strided_view(view, by_sample, table_.template at<std::int32_t>(0), copied.all(),
                           plain_strides_of(copied.all()), shared_ ? 0 : copied_);
    }
  }

  const MatrixForm& form() const { return form_; }
  bool lies() const { return lies_; }
  // Of T to places of the operand's tensor, from matrices one behind the other.
  StridedCopy placement() const { return reversed(copy_); }
  std::int64_t elements() const { return copied_; }

  class Ready {
   public:
    const T* get() const { return data_; }

   private:
    friend class MatrixOperand;
    const T* data_ = nullptr;
    Workspace<T> copy_;
  };
  // `source`: of the first sample; T of an input, else float.
  Ready ready(Stream& stream, const void* source, std::int64_t samples) const {
    Ready r;
    const std::int64_t copies = shared_ ? 1 : samples;
    if (lies_ && (!floats_ || std::is_same_v<T, float>)) {
      r.data_ = static_cast<const T*>(source);
      return r;
    }
    r.copy_ = Workspace<T>(context_, stream, lies_ ? elements_ : copies * copied_);
    r.data_ = r.copy_.get();
    if (lies_) {
      convert(static_cast<const float*>(source), r.copy_.get(), elements_, handle(stream));
    } else if (floats_) {
      strided_copy(copy_, static_cast<const float*>(source), copies, r.copy_.get(), handle(stream));
    } else {
      strided_copy(copy_, static_cast<const T*>(source), copies, r.copy_.get(), handle(stream));
    }
    return r;
  }

 private:
  LayerContext& context_;
  bool floats_;
  std::int64_t elements_;
  KeptArrays table_;
  bool shared_ = false, lies_ = false;
  MatrixForm form_;
  std::int64_t copied_ = 0;  // elements of a sample's copy
  StridedCopy copy_;
};

}  // namespace hetpipe::cuda
