// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/elementwise.h"

#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/sample_keys.h"
#include "kernels/cuda/own/dropout.h"

namespace hetpipe::cuda {
namespace {

template <class T>
class ElementwiseLayer final : public LayerKernel {
 public:
  ElementwiseLayer(LayerContext&, const ElementwiseSpec& layer, BackwardReads reads,
                   const Shape& in)
      : layer_(layer), reads_(reads), count_(in.elements()) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    elementwise_forward(layer_, as<T>(a.inputs[0]), as<T>(a.output), count_, handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    elementwise_backward(layer_, as<T>(read_by(reads_, a)), as<T>(a.output_gradient), as<T>(dx),
                         count_, handle(stream));
  }

 private:
  ElementwiseSpec layer_;
  BackwardReads reads_;
  std::int64_t count_;
};

template <class T>
class AddLayer final : public LayerKernel {
 public:
  AddLayer(LayerContext&, const Shape& in) : count_(in.elements()) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    add_forward(as<T>(a.inputs[0]), as<T>(a.inputs[1]), as<T>(a.output), count_, handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    for (std::byte* const dx : a.input_gradients) {
      if (dx == nullptr) continue;
      copy(as<T>(a.output_gradient), as<T>(dx), count_, handle(stream));
    }
  }

 private:
  std::int64_t count_;
};

template <class T>
class AddReluLayer final : public LayerKernel {
 public:
  AddReluLayer(LayerContext&, const Shape& in) : count_(in.elements()) {}
  void adjust(LayerShapes& shapes) const override {
    shapes.forward_in_place = shapes.backward_in_place = true;
  }
  void forward(Stream& stream, const ForwardArguments& a) override {
    add_relu_forward(as<T>(a.inputs[0]), as<T>(a.inputs[1]), as<T>(a.output), count_,
                     handle(stream));
  }
  // One gradient for both inputs.
  void backward(Stream& stream, const BackwardArguments& a) override {
    T* const first = as<T>(wanted(a.input_gradients, 0));
    T* const second = as<T>(wanted(a.input_gradients, 1));
    T* const any = first != nullptr ? first : second;
    if (any == nullptr) return;
    elementwise_backward(Relu{}, as<T>(a.output), as<T>(a.output_gradient), any, count_,
                         handle(stream));
    if (second != nullptr) copy(static_cast<const T*>(any), second, count_, handle(stream));
  }

 private:
  std::int64_t count_;
};

enum class AfterDropout { nothing, add };

// Dropout and alpha dropout, which differ in what they do with what is kept. Behind dropout the sum
// with a second input is taken along.
template <class T, class Spec>
class DropoutLayer final : public LayerKernel {
 public:
  DropoutLayer(LayerContext& context, const Spec& spec, const AfterDropout& after, const Shape& in,
               std::uint64_t key)
      : context_(context),
        adds_(after == AfterDropout::add),
        rate_(spec.rate),
        samples_(in[0]),
        elements_(in.elements() / in[0]),
        key_(key) {
    if constexpr (std::is_same_v<Spec, Dropout>) draws_ = spec.draws;
  }

  void adjust(LayerShapes& shapes) const override {
    shapes.forward_in_place = shapes.backward_in_place = true;
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const T* const x = as<T>(a.inputs[0]);
    const T* const residual = adds_ ? as<T>(a.inputs[1]) : nullptr;
    T* const y = as<T>(a.output);
    if (a.mode == Mode::evaluate) {
      const std::int64_t count = samples_ * elements_;
      if (adds_) return add_forward(x, residual, y, count, handle(stream));
      return copy(x, y, count, handle(stream));
    }
    const auto there = sample_keys(context_, stream, key_, samples_, a.samples);
    auto* const kept = reinterpret_cast<std::uint8_t*>(a.stash);
    if constexpr (std::is_same_v<Spec, Dropout>) {
      dropout_forward(there.get(), samples_, elements_, draws_, rate_, x, residual, kept, y,
                      handle(stream));
    } else {
      alpha_dropout_forward(there.get(), samples_, elements_, rate_, x, kept, y, handle(stream));
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    T* const dx = as<T>(wanted(a.input_gradients, 0));
    T* const dresidual = adds_ ? as<T>(wanted(a.input_gradients, 1)) : nullptr;
    if (dx == nullptr && dresidual == nullptr) return;
    const T* const dy = as<T>(a.output_gradient);
    const auto* const kept = reinterpret_cast<const std::uint8_t*>(a.stash);
    const std::int64_t count = samples_ * elements_;
    if constexpr (std::is_same_v<Spec, Dropout>) {
      dropout_backward(kept, count, rate_, dy, dx, dresidual, handle(stream));
    } else {
      alpha_dropout_backward(kept, count, rate_, dy, dx, handle(stream));
    }
  }

 private:
  LayerContext& context_;
  bool adds_;
  float rate_;
  std::int64_t samples_, elements_, draws_ = 0;
  std::uint64_t key_;
};
template <class T>
using PlainDropout = DropoutLayer<T, Dropout>;
template <class T>
using SelfNormalizingDropout = DropoutLayer<T, AlphaDropout>;

}  // namespace

LayerMaker make_elementwise(LayerContext& context, const ElementwiseSpec& spec, const Shape& in) {
  const BackwardReads reads =
      std::visit([]<class Layer>(const Layer&) { return row_of<Layer>().backward_reads; }, spec);
  return make_of_type<ElementwiseLayer>(context, spec, reads, in);
}
LayerMaker make_add(LayerContext& context, const Shape& in) {
  return make_of_type<AddLayer>(context, in);
}
LayerMaker make_add_relu(LayerContext& context, const Shape& in) {
  return make_of_type<AddReluLayer>(context, in);
}
LayerMaker make_dropout(LayerContext& context, const Dropout& spec, const Shape& in,
                        std::uint64_t key) {
  return make_of_type<PlainDropout>(context, spec, AfterDropout::nothing, in, key);
}
LayerMaker make_dropout_add(LayerContext& context, const Dropout& spec, const Shape& in,
                            std::uint64_t key) {
  return make_of_type<PlainDropout>(context, spec, AfterDropout::add, in, key);
}
LayerMaker make_dropout(LayerContext& context, const AlphaDropout& spec, const Shape& in,
                        std::uint64_t key) {
  return make_of_type<SelfNormalizingDropout>(context, spec, AfterDropout::nothing, in, key);
}

}  // namespace hetpipe::cuda
