// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/blas/linear.h"

#include "kernels/cuda/layers/aligned_tensor.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/parameters.h"
#include "kernels/cuda/own/column_sums.h"
#include "kernels/cuda/own/elementwise.h"
#include "kernels/cuda/own/embedding.h"

namespace hetpipe::cuda {
namespace {

enum class AfterLinear { nothing, gelu };

// With the activation behind it, whose input h is the stash.
template <class T>
class LinearLayer final : public LayerKernel {
 public:
  LinearLayer(LayerContext& context, const Linear& spec, const AfterLinear& after, const Shape& in)
      : context_(context),
        after_(after),
        plans_(context.libraries, spec, in, context.precision),
        rows_(in.elements() / in[in.rank() - 1]),
        weights_(in[in.rank() - 1] * spec.output_features),
        elements_(rows_ * spec.output_features),
        outputs_(spec.bias ? spec.output_features : 0) {}

  bool adds_gelu() { return plans_.adds_gelu(); }

  void adjust(LayerShapes& shapes) const override {
    if (gelu()) shapes.stash_bytes = elements_ * static_cast<std::int64_t>(sizeof(T));
  }

  void prepare(bool input_gradients) override {
    plans_.forward_workspace();
    if (gelu()) plans_.gelu_workspace();
    plans_.weight_gradient_workspace();
    if (input_gradients) plans_.input_gradient_workspace();
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const Rounded<T> weight(context_, stream, a.parameters[0], weights_);
    const bool keeps_h = gelu() && a.mode == Mode::train;
    T* const y = as<T>(a.output);
    T* const h = keeps_h ? as<T>(a.stash) : y;
    const bool aligned =
        is_aligned(a.inputs[0]) && is_aligned(weight.get()) && is_aligned(a.output);
    if (keeps_h && aligned) {
      const Workspace<> workspace = memory(stream, plans_.gelu_workspace());
      const Rounded<T> own_bias(context_, stream, a.parameters[1], outputs_);
      const AlignedTensor bias(context_, stream, own_bias.get(), bias_bytes());
      plans_.forward_gelu(handle(stream), a.inputs[0], weight.get(), bias.read(stream), h, y,
                          workspace.get());
      return;
    }
    multiply(stream, a, weight.get(), aligned, h);
    if (gelu()) {
      elementwise_forward(Gelu{}, static_cast<const T*>(h), y, elements_, handle(stream));
    }
  }

  // What the activation lets through takes the place of the output's gradient, unless that is left
  // to the second half of a split backward.
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (!gelu()) return multiply_backward(stream, a);
    const bool keeps_gradient = a.parameter_gradients.empty();
    const Workspace<> passed(context_, stream,
                             keeps_gradient ? elements_ * std::int64_t{sizeof(T)} : 0);
    BackwardArguments own = a;
    if (keeps_gradient) own.output_gradient = passed.get();
    elementwise_backward(Gelu{}, as<T>(a.stash), as<T>(a.output_gradient),
                         as<T>(own.output_gradient), elements_, handle(stream));
    multiply_backward(stream, own);
  }

 private:
  bool gelu() const { return after_ == AfterLinear::gelu; }
  std::size_t bias_bytes() const { return static_cast<std::size_t>(outputs_) * sizeof(T); }
  // h (rows, out) = x · weight + bias
  void multiply(Stream& stream, const ForwardArguments& a, const T* weight, bool aligned, T* h) {
    const Workspace<> workspace = memory(stream, plans_.forward_workspace());
    const auto product = [&](const void* bias) {
      plans_.forward(handle(stream), a.inputs[0], weight, bias, h, workspace.get());
    };
    if (outputs_ == 0) return product(nullptr);
    if (plans_.adds_bias() && aligned) {
      const Rounded<T> own_bias(context_, stream, a.parameters[1], outputs_);
      const AlignedTensor bias(context_, stream, own_bias.get(), bias_bytes());
      return product(bias.read(stream));
    }
    product(nullptr);  // a bias is added as positions are: row by row, in place
    position_forward(rows_, outputs_, static_cast<const T*>(h), a.parameters[1], h, handle(stream));
  }
  void multiply_backward(Stream& stream, const BackwardArguments& a) {
    float* const dweight = wanted(a.parameter_gradients, 0);
    float* const dbias = wanted(a.parameter_gradients, 1);
    if (dweight != nullptr || dbias != nullptr) parameter_gradients(stream, a, dweight, dbias);
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      const Rounded<T> weight(context_, stream, a.parameters[0], weights_);
      const Workspace<> workspace = memory(stream, plans_.input_gradient_workspace());
      plans_.input_gradient(handle(stream), a.output_gradient, weight.get(), dx, workspace.get());
    }
  }
  // One product makes both, where it can; what is not wanted goes to workspace.
  void parameter_gradients(Stream& stream, const BackwardArguments& a, float* dweight,
                           float* dbias) {
    const bool both = outputs_ > 0 && plans_.sums_bias_gradient() && is_aligned(a.inputs[0]) &&
                      is_aligned(a.output_gradient) && is_aligned(dweight);
    if (both || dweight != nullptr) {
      const Workspace<float> unwanted(context_, stream, dweight == nullptr ? weights_ : 0);
      const Workspace<float> spare(context_, stream, both && dbias == nullptr ? outputs_ : 0);
      const AlignedTensor bias(context_, stream, dbias != nullptr ? dbias : spare.get(),
                               static_cast<std::size_t>(outputs_) * sizeof(float));
      const Workspace<> workspace = memory(stream, plans_.weight_gradient_workspace());
      plans_.weight_gradient(handle(stream), a.inputs[0], a.output_gradient,
                             dweight != nullptr ? dweight : unwanted.get(),
                             both ? static_cast<float*>(bias.write()) : nullptr, workspace.get());
      if (both) bias.written(stream);
    }
    if (both || dbias == nullptr) return;
    const Workspace<> scratch = memory(stream, column_sums_scratch_bytes<T>(rows_, outputs_));
    column_sums(rows_, outputs_, as<T>(a.output_gradient), dbias, scratch.get(), handle(stream));
  }
  Workspace<> memory(Stream& stream, std::size_t bytes) const {
    return {context_, stream, static_cast<std::int64_t>(bytes)};
  }

  LayerContext& context_;
  AfterLinear after_;
  LinearPlans plans_;
  std::int64_t rows_, weights_, elements_;
  std::int64_t outputs_;  // 0: no bias
};

}  // namespace

LayerMaker make_linear(LayerContext& context, const Linear& spec, const Shape& in) {
  if (LayerMaker padded = make_padded_linear(context, spec, in)) return padded;
  return make_of_type<LinearLayer>(context, spec, AfterLinear::nothing, in);
}

LayerMaker make_linear_gelu(LayerContext& context, const Linear& spec, const Shape& in) {
  const auto make = [&]<class T>(T) -> LayerMaker {
    auto kernel = std::make_unique<LinearLayer<T>>(context, spec, AfterLinear::gelu, in);
    return kernel->adds_gelu() ? std::move(kernel) : nullptr;
  };
  return with_type(context, make);
}

}  // namespace hetpipe::cuda
