// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/gather.h"

#include <map>
#include <optional>

#include "kernels/cuda/layers/operand_gradients.h"
#include "kernels/cuda/layers/operand_sources.h"
#include "kernels/reference/algebra_sums.h"

// Moves, reductions, softmax and cumulative sums.
namespace hetpipe::cuda {
namespace {

template <class T>
class MoveLayer final : public LayerKernel {
 public:
  MoveLayer(LayerContext& context, const Move& spec, const std::vector<Shape>& inputs)
      : context_(context),
        spec_(spec),
        samples_(inputs[0][0]),
        output_(reference::product_of(spec.output)),
        sources_(context, spec, inputs, sizeof(T)) {
    std::int64_t written = 0;
    for (const Move::Piece& piece : spec_.pieces) {
      tables_.push_back(kept_table(context, piece.from));
      StridedCopy copy = strided_view(piece.from, sources_.by_sample(piece.from),
                                      tables_.back().template at<std::int32_t>(0), piece.extents,
                                      piece.to_strides, output_);
      copy.to.offset = piece.to_offset;
      written += copy.elements;
      copies_.push_back(copy);
    }
    fills_ = written < output_;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      std::vector<OperandView> views;
      std::vector<const OperandView*> all;
      for (const std::size_t p : pieces_of(Source::input, i)) {
        views.push_back({spec_.pieces[p].from, {spec_.pieces[p].extents, {}, 1}});
        views.back().operand.strides.push_back(0);
        views.back().operand.table_strides.push_back(0);
      }
      for (const OperandView& v : views) all.push_back(&v);
      reads_.push_back(tensor_reads(sources_.inputs()[i], all));
    }
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    T* const y = as<T>(a.output);
    if (fills_) fill_elements(y, spec_.fill, samples_ * output_, handle(stream));
    for (std::size_t i = 0; i < copies_.size(); ++i) {
      const Operand& o = spec_.pieces[i].from;
      const void* const from = sources_.of(o, a, 0);
      if (o.source == Source::input) {
        strided_copy(copies_[i], static_cast<const T*>(from), samples_, y, handle(stream));
      } else {
        strided_copy(copies_[i], static_cast<const float*>(from), samples_, y, handle(stream));
      }
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const T* const dy = as<T>(std::as_const(a.output_gradient));
    for (std::size_t i = 0; i < reads_.size(); ++i) {
      T* const dx = as<T>(wanted(a.input_gradients, i));
      if (dx == nullptr) continue;
      if (!reads_[i].once) {
        sum_reads(lists(Source::input, i, sources_.inputs()[i]).reads({dy}, {false}, 1), samples_,
                  dx, handle(stream));
        continue;
      }
      if (!reads_[i].all) {
        fill_elements(dx, 0, samples_ * sources_.inputs()[i], handle(stream));
      }
      for (const std::size_t p : pieces_of(Source::input, i)) {
        strided_copy(reversed(copies_[p]), dy, samples_, dx, handle(stream));
      }
    }
    for (std::size_t p = 0; p < spec_.parameters.size(); ++p) {
      float* const d = wanted(a.parameter_gradients, p);
      if (d == nullptr) continue;
      sum_reads_of_samples<T>(
          lists(Source::parameter, p, sources_.parameters()[p]).reads({dy}, {false}, samples_),
          samples_, false, d, handle(stream));
    }
  }

 private:
  std::vector<std::size_t> pieces_of(Source source, std::size_t index) const {
    std::vector<std::size_t> own;
    for (std::size_t i = 0; i < spec_.pieces.size(); ++i) {
      const Operand& o = spec_.pieces[i].from;
      if (o.source == source && static_cast<std::size_t>(o.index) == index) own.push_back(i);
    }
    return own;
  }
  const KeptReads& lists(Source source, std::size_t index, std::int64_t elements) {
    const auto found = lists_.find({source, index});
    if (found != lists_.end()) return found->second;
    ReadTerms terms;
    terms.others = output_;
    for (const std::size_t p : pieces_of(source, index)) {
      const Move::Piece& piece = spec_.pieces[p];
      const LoopNumbers from = reference::places_of(piece.from, piece.extents);
      terms.elements.insert(terms.elements.end(), from.begin(), from.end());
      for (const std::int64_t to : reference::sums_of(piece.extents, piece.to_strides)) {
        terms.places.push_back(piece.to_offset + to);
      }
    }
    return lists_.emplace(std::pair(source, index), KeptReads(context_, elements, {terms}))
        .first->second;
  }

  LayerContext& context_;
  Move spec_;
  std::int64_t samples_, output_;
  OperandSources sources_;
  std::vector<KeptArrays> tables_;   // of each piece
  std::vector<StridedCopy> copies_;  // likewise
  std::vector<TensorReads> reads_;   // of each input
  bool fills_ = false;
  std::map<std::pair<Source, std::size_t>, KeptReads> lists_;
};

template <class T>
class ReduceLayer final : public LayerKernel {
 public:
  ReduceLayer(LayerContext& context, const Reduce& spec, const Shape& in)
      : context_(context),
        spec_(spec),
        samples_(in[0]),
        elements_(in.elements() / in[0]),
        kept_(reference::product_of(spec.kept)),
        reduced_(reference::product_of(spec.reduced)),
        forth_(context, kept_, {{numbers_of_kept(), places(), elements_}}) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    const T* const x = as<T>(a.inputs[0]);
    if (sums()) {
      Reads reads = forth_.reads({x}, {false}, 1);
      reads.factor = factor();
      sum_reads(reads, samples_, as<T>(a.output), handle(stream));
    } else {
      gather_best(lists(), best(), x, samples_, as<T>(a.output), handle(stream));
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    T* const dx = as<T>(wanted(a.input_gradients, 0));
    if (dx == nullptr) return;
    const T* const dy = as<T>(std::as_const(a.output_gradient));
    if (!back_) {
      const ReadTerms terms = sums() ? ReadTerms{places(), numbers_of_kept(), kept_}
                                     : ReadTerms{places(), {}, kept_ * reduced_};
      back_ = KeptReads(context_, elements_, {terms});
    }
    Workspace<float> shares;
    if (!sums()) {
      shares = Workspace<float>(context_, stream, samples_ * kept_ * reduced_);
      shares_of_best(lists(), best(), as<T>(a.inputs[0]), dy, kept_ * reduced_, samples_,
                     shares.get(), handle(stream));
    }
    Reads reads = sums() ? back_->reads({dy}, {false}, 1) : back_->reads({shares.get()}, {true}, 1);
    if (sums()) reads.factor = factor();
    sum_reads(reads, samples_, dx, handle(stream));
  }

 private:
  bool sums() const { return reference::is_sum(spec_.kind); }
  float factor() const {
    return spec_.kind == Reduce::Kind::sum ? 1.0f : 1 / static_cast<float>(reduced_);
  }
  Best best() const {
    switch (spec_.kind) {
      case Reduce::Kind::minimum:
        return Best::minimum;
      case Reduce::Kind::first_maximum:
        return Best::first_maximum;
      case Reduce::Kind::first_minimum:
        return Best::first_minimum;
      default:
        return Best::maximum;
    }
  }
  // Of all places of the loops: the input's element, and the number of what it is reduced to.
  LoopNumbers places() const {
    return reference::places_of(spec_.from, reference::joined({spec_.kept, spec_.reduced}));
  }
  LoopNumbers numbers_of_kept() const {
    LoopNumbers numbers;
    for (std::int64_t i = 0; i < kept_ * reduced_; ++i) numbers.push_back(i / reduced_);
    return numbers;
  }
  PlaceLists lists() const { return {forth_.starts(), forth_.entries(), kept_, elements_}; }

  LayerContext& context_;
  Reduce spec_;
  std::int64_t samples_, elements_, kept_, reduced_;
  KeptReads forth_;
  std::optional<KeptReads> back_;
};

template <class T>
class SoftmaxLayer final : public LayerKernel {
 public:
  SoftmaxLayer(LayerContext&, const Softmax& spec, const Shape& in)
      : logarithm_(spec.logarithm),
        features_(in[in.rank() - 1]),
        rows_(in.elements() / features_) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    softmax_forward(logarithm_, rows_, features_, as<T>(a.inputs[0]), as<T>(a.output),
                    handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    T* const dx = as<T>(wanted(a.input_gradients, 0));
    if (dx == nullptr) return;
    softmax_backward(logarithm_, rows_, features_, as<T>(a.output), as<T>(a.output_gradient), dx,
                     handle(stream));
  }

 private:
  bool logarithm_;
  std::int64_t features_, rows_;
};

template <class T>
class CumulativeSumLayer final : public LayerKernel {
 public:
  CumulativeSumLayer(LayerContext&, const Shape& in) : s_(in) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    cumulative_sum(s_.outer, s_.places, s_.features, false, as<T>(a.inputs[0]), as<T>(a.output),
                   handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    T* const dx = as<T>(wanted(a.input_gradients, 0));
    if (dx == nullptr) return;
    cumulative_sum(s_.outer, s_.places, s_.features, true, as<T>(a.output_gradient), dx,
                   handle(stream));
  }

 private:
  reference::CumulativeSizes s_;
};

}  // namespace

LayerMaker make_move(LayerContext& context, const Move& spec, const std::vector<Shape>& inputs) {
  return make_of_type<MoveLayer>(context, spec, inputs);
}
LayerMaker make_reduce(LayerContext& context, const Reduce& spec, const Shape& in) {
  return make_of_type<ReduceLayer>(context, spec, in);
}
LayerMaker make_softmax(LayerContext& context, const Softmax& spec, const Shape& in) {
  return make_of_type<SoftmaxLayer>(context, spec, in);
}
LayerMaker make_cumulative_sum(LayerContext& context, const Shape& in) {
  return make_of_type<CumulativeSumLayer>(context, in);
}

}  // namespace hetpipe::cuda
