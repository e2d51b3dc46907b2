// SPDX-License-Identifier: Apache-2.0
#include <optional>

#include "kernels/cuda/layers/packed_arrays.h"
#include "kernels/cuda/own/gather.h"
#include "kernels/reference/algebra_sums.h"

// Moves, reductions, softmax and cumulative sums.
namespace hetpipe::cuda {
namespace {

// Lists of places by element, on the host.
struct ListsOnHost {
  std::vector<std::int32_t> starts, entries;

  // Pairs (element, place), in the order in which they are summed.
  ListsOnHost() = default;
  ListsOnHost(std::int64_t elements, const std::vector<std::pair<std::int64_t, std::int64_t>>& all)
      : starts(static_cast<std::size_t>(elements) + 1, 0), entries(all.size()) {
    for (const auto& [element, place] : all) ++starts[static_cast<std::size_t>(element) + 1];
    for (std::size_t e = 1; e < starts.size(); ++e) starts[e] += starts[e - 1];
    std::vector<std::int32_t> next(starts.begin(), starts.end() - 1);
    for (const auto& [element, place] : all) {
      entries[static_cast<std::size_t>(next[static_cast<std::size_t>(element)]++)] =
          static_cast<std::int32_t>(place);
    }
  }
};

// Lists on the device, for a call.
class ListsThere {
 public:
  ListsThere(const LayerContext& context, Stream& stream, const ListsOnHost& lists) {
    const std::size_t starts = arrays_.add(lists.starts), entries = arrays_.add(lists.entries);
    there_ = arrays_.upload(context, stream);
    lists_.starts = at<std::int32_t>(there_, starts);
    lists_.entries = at<std::int32_t>(there_, entries);
  }
  PlaceLists of(std::int64_t elements, std::int64_t others) const {
    PlaceLists lists = lists_;
    lists.elements = elements;
    lists.others = others;
    return lists;
  }

 private:
  PackedArrays arrays_;
  Workspace<> there_;
  PlaceLists lists_;
};

std::vector<std::int64_t> elements_of_samples(const std::vector<Shape>& inputs) {
  std::vector<std::int64_t> elements;
  for (const Shape& in : inputs) elements.push_back(in.elements() / in[0]);
  return elements;
}

template <class T>
class MoveLayer final : public LayerKernel {
 public:
  MoveLayer(LayerContext& context, const Move& spec, const std::vector<Shape>& inputs)
      : context_(context),
        spec_(spec),
        samples_(inputs[0][0]),
        elements_(elements_of_samples(inputs)),
        output_(reference::product_of(spec.output)) {
    std::int64_t written = 0;
    for (const Move::Piece& piece : spec_.pieces) {
      Places p;
      for (const std::int64_t from : reference::places_of(piece.from, piece.extents)) {
        p.from.push_back(static_cast<std::int32_t>(from));
      }
      for (const std::int64_t to : reference::sums_of(piece.extents, piece.to_strides)) {
        p.to.push_back(static_cast<std::int32_t>(piece.to_offset + to));
      }
      written += static_cast<std::int64_t>(p.to.size());
      places_.push_back(std::move(p));
    }
    fills_ = written < output_;
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    T* const y = as<T>(a.output);
    if (fills_) fill_elements(y, spec_.fill, samples_ * output_, handle(stream));
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Operand& o = spec_.pieces[i].from;
      const auto index = static_cast<std::size_t>(o.index);
      PackedArrays arrays;
      const std::size_t to = arrays.add(places_[i].to), from = arrays.add(places_[i].from);
      const bool constant = o.source == Source::constant;
      const std::size_t values =
          constant ? arrays.add(spec_.constants[index].data(),
                                static_cast<std::size_t>(spec_.constants[index].size()))
                   : 0;
      const Workspace<> there = arrays.upload(context_, stream);
      const auto count = static_cast<std::int64_t>(places_[i].to.size());
      if (o.source == Source::input) {
        place_elements(at<std::int32_t>(there, to), at<std::int32_t>(there, from), count,
                       as<T>(a.inputs[index]), elements_[index], samples_, output_, y,
                       handle(stream));
      } else {
        place_floats(at<std::int32_t>(there, to), at<std::int32_t>(there, from), count,
                     constant ? at<float>(there, values) : a.parameters[index], samples_, output_,
                     y, handle(stream));
      }
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const T* const dy = as<T>(a.output_gradient);
    for (std::size_t i = 0; i < elements_.size(); ++i) {
      T* const dx = as<T>(wanted(a.input_gradients, i));
      if (dx == nullptr) continue;
      const ListsThere lists(context_, stream, readers(Source::input, i, elements_[i]));
      gather_sums(lists.of(elements_[i], output_), dy, 1, samples_, dx, handle(stream));
    }
    for (std::size_t p = 0; p < spec_.parameters.size(); ++p) {
      float* const d = wanted(a.parameter_gradients, p);
      if (d == nullptr) continue;
      const std::int64_t elements = spec_.parameters[p].shape.elements();
      const ListsThere lists(context_, stream, readers(Source::parameter, p, elements));
      gather_sums_of_samples(lists.of(elements, output_), dy, samples_, d, handle(stream));
    }
  }

 private:
  struct Places {
    std::vector<std::int32_t> from, to;
  };
  ListsOnHost readers(Source source, std::size_t index, std::int64_t elements) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> all;
    for (std::size_t i = 0; i < places_.size(); ++i) {
      const Operand& o = spec_.pieces[i].from;
      if (o.source != source || static_cast<std::size_t>(o.index) != index) continue;
      for (std::size_t e = 0; e < places_[i].to.size(); ++e) {
        all.emplace_back(places_[i].from[e], places_[i].to[e]);
      }
    }
    return ListsOnHost(elements, all);
  }

  LayerContext& context_;
  Move spec_;
  std::int64_t samples_;
  std::vector<std::int64_t> elements_;
  std::int64_t output_;
  std::vector<Places> places_;  // of each piece
  bool fills_ = false;
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
        reduced_(reference::product_of(spec.reduced)) {
    const auto places =
        reference::places_of(spec.from, reference::joined({spec.kept, spec.reduced}));
    std::vector<std::pair<std::int64_t, std::int64_t>> forth, back;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::int64_t k = static_cast<std::int64_t>(i) / reduced_;
      forth.emplace_back(k, places[i]);
      back.emplace_back(places[i], k);
    }
    forth_ = ListsOnHost(kept_, forth);
    back_ = ListsOnHost(elements_, back);
    for (std::size_t e = 0; e + 1 < back_.starts.size(); ++e) {
      once_ = once_ && back_.starts[e + 1] - back_.starts[e] <= 1;
    }
    if (!sums() && !once_) {
      throw UserError("CUDA device", "has no kernel for the maximum of an input that is repeated");
    }
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const ListsThere lists(context_, stream, forth_);
    const PlaceLists l = lists.of(kept_, elements_);
    if (sums()) {
      gather_sums(l, as<T>(a.inputs[0]), factor(), samples_, as<T>(a.output), handle(stream));
    } else {
      gather_best(l, best(), as<T>(a.inputs[0]), samples_, as<T>(a.output), handle(stream));
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    T* const dx = as<T>(wanted(a.input_gradients, 0));
    if (dx == nullptr) return;
    const T* const dy = as<T>(a.output_gradient);
    if (sums()) {
      const ListsThere lists(context_, stream, back_);
      gather_sums(lists.of(elements_, kept_), dy, factor(), samples_, dx, handle(stream));
      return;
    }
    if (kept_ * reduced_ < elements_) {
      fill_elements(dx, 0, samples_ * elements_, handle(stream));
    }
    const ListsThere lists(context_, stream, forth_);
    scatter_to_best(lists.of(kept_, elements_), best(), as<T>(a.inputs[0]), dy, samples_, dx,
                    handle(stream));
  }

 private:
  bool sums() const { return spec_.kind == Reduce::Kind::sum || spec_.kind == Reduce::Kind::mean; }
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

  LayerContext& context_;
  Reduce spec_;
  std::int64_t samples_, elements_, kept_, reduced_;
  ListsOnHost forth_, back_;
  bool once_ = true;
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
