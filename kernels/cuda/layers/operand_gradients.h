// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "kernels/cuda/layers/kept_reads.h"
#include "kernels/cuda/layers/matrix_operand.h"
#include "kernels/reference/algebra.h"

// Gradients of a layer's operands, from matrices of their gradients to the tensors that they are
// read from.
namespace hetpipe::cuda {

// How one tensor (an input's sample, or a parameter) is read by a layer's operands.
struct TensorReads {
  bool once = true;  // each element at most once
  bool all = true;   // each element
};
struct OperandView {
  Operand operand;
  MatrixLoops loops;
};
TensorReads tensor_reads(std::int64_t elements, const std::vector<const OperandView*>& views);

// The samples are treated in chunks of some at a time.
inline constexpr std::int64_t kChunkBytes = std::int64_t{64} << 20;
// The largest part of `samples` that divides them and needs at most kChunkBytes, at least 1.
std::int64_t chunk_of(std::int64_t samples, std::int64_t bytes_by_sample);

// One tensor's gradient. What a product computes goes
//   straight there, where the operand's matrices have a form there;
//   one behind the other to memory of T, and is placed from there;
//   to memory of float, and is summed from there: elements that are read several times, parameters.
template <class T>
class TensorGradient {
 public:
  // `views`: the tensor's; products[i]: whether view i's gradient comes from a product, else its
  // values are given, one behind the other, in T. Samples in all and in each chunk.
  TensorGradient(LayerContext& context, Source source, std::int64_t elements,
                 std::vector<OperandView> views, std::vector<bool> products, std::int64_t samples)
      : context_(context),
        source_(source),
        elements_(elements),
        views_(std::move(views)),
        products_(std::move(products)),
        samples_(samples) {
    std::vector<const OperandView*> all;
    for (const OperandView& v : views_) all.push_back(&v);
    reads_ = tensor_reads(elements_, all);
    sums_ = !reads_.once;
    for (const bool product : products_) sums_ = sums_ || !product;
    if (source_ == Source::parameter) {
      sums_ = sums_ || samples_ > 1 || views_.size() != 1 || !reads_.all ||
              !form_at_rest(views_[0], 1).has_value();
    }
  }

  // Bytes for each sample of a chunk.
  std::int64_t bytes_by_sample() const {
    std::int64_t bytes = 0;
    for (const OperandView& v : views_) {
      bytes += sums_ ? v.loops.elements() * static_cast<std::int64_t>(sizeof(float)) : 0;
    }
    return bytes;
  }
  void set_chunk(std::int64_t chunk) {
    chunk_ = chunk;
    forms_.clear();
    for (const OperandView& v : views_) {
      std::optional<MatrixForm> form;
      if (!sums_) form = form_at_rest(v, chunk);
      lies_.push_back(form.has_value());
      forms_.push_back(form ? *form : plain_form(v.loops.row_count(), v.loops.columns));
      tables_.push_back(form || sums_ ? KeptArrays() : kept_table(context_, v.operand));
    }
  }
  // Of what view i's product writes.
  const MatrixForm& form(std::size_t i) const { return forms_[i]; }
  ElementType result() const {
    return sums_ || source_ == Source::parameter ? ElementType::fp32
                                                 : element_of(context_.precision);
  }

  // A chunk's: memory for the products, until it is finished.
  class Chunk {
   public:
    // `gradient`: the tensor's, of the chunk's first sample; of T of an input's, else float.
    Chunk(TensorGradient& of, Stream& stream, void* gradient, bool first)
        : of_(of), stream_(stream), gradient_(gradient), first_(first) {
      values_.resize(of.views_.size(), nullptr);
      if (!of.sums_ && !of.reads_.all) {
        fill_zeros();
      }
      for (std::size_t i = 0; i < of.views_.size(); ++i) {
        Workspace<> memory;
        if (of.products_[i] && (of.sums_ || !of.lies_[i])) {
          const auto bytes = static_cast<std::int64_t>(bytes_of(of.result()));
          memory =
              Workspace<>(of.context_, stream, of.chunk_ * of.views_[i].loops.elements() * bytes);
          values_[i] = memory.get();
        }
        memory_.push_back(std::move(memory));
      }
    }
    // Where view i's product writes.
    void* target(std::size_t i) {
      return !of_.sums_ && of_.lies_[i] ? gradient_ : memory_[i].get();
    }
    void give(std::size_t i, const T* values) { values_[i] = values; }
    void finish() {
      if (of_.sums_) return sum();
      for (std::size_t i = 0; i < of_.views_.size(); ++i) {
        if (of_.lies_[i]) continue;
        const OperandView& v = of_.views_[i];
        const LoopNumbers loops = v.loops.all();
        strided_copy(reversed(strided_view(v.operand, of_.elements_,
                                           of_.tables_[i].template at<std::int32_t>(0), loops,
                                           plain_strides_of(loops), v.loops.elements())),
                     static_cast<const T*>(values_[i]), of_.chunk_, static_cast<T*>(gradient_),
                     handle(stream_));
      }
    }

   private:
    void fill_zeros() {
      check(cudaMemsetAsync(gradient_, 0,
                            static_cast<std::size_t>(of_.chunk_ * of_.elements_) * sizeof(T),
                            handle(stream_)),
            "clearing a gradient");
    }
    void sum() {
      if (!of_.lists_) of_.lists_ = of_.make_lists();
      const bool input = of_.source_ == Source::input;
      const Reads reads = of_.lists_->reads(values_, of_.products_, input ? 1 : of_.chunk_);
      if (input) {
        sum_reads(reads, of_.chunk_, static_cast<T*>(gradient_), handle(stream_));
      } else {
        sum_reads_of_samples<T>(reads, of_.chunk_, !first_, static_cast<float*>(gradient_),
                                handle(stream_));
      }
    }

    TensorGradient& of_;
    Stream& stream_;
    void* gradient_;
    bool first_;
    std::vector<const void*> values_;
    std::vector<Workspace<>> memory_;
  };

 private:
  std::optional<KeptReads> make_lists() const {
    std::vector<ReadTerms> terms;
    for (const OperandView& v : views_) {
      terms.push_back({reference::places_of(v.operand, v.loops.all()), {}, v.loops.elements()});
    }
    return KeptReads(context_, elements_, terms);
  }
  // Of the view's matrices in the tensor.
  std::optional<MatrixForm> form_at_rest(const OperandView& v, std::int64_t chunk) const {
    if (!v.operand.table.empty()) return std::nullopt;
    return matrix_form(v.loops, v.operand.strides, v.operand.offset, chunk,
                       source_ == Source::input ? elements_ : 0);
  }

  LayerContext& context_;
  Source source_;
  std::int64_t elements_;
  std::vector<OperandView> views_;
  std::vector<bool> products_;
  std::int64_t samples_, chunk_ = 1;
  TensorReads reads_;
  bool sums_ = false;
  std::vector<bool> lies_;
  std::vector<MatrixForm> forms_;
  std::vector<KeptArrays> tables_;
  std::optional<KeptReads> lists_;
};

}  // namespace hetpipe::cuda
