// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/convolution.h"

#include "kernels/cuda/layers/aligned_tensor.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/parameters.h"
#include "kernels/cuda/own/column_sums.h"
#include "kernels/cuda/own/convert.h"
#include "kernels/cuda/own/elementwise.h"
#include "kernels/window.h"

namespace hetpipe::cuda {
namespace {

// With the activation behind it in one pass.
template <class T>
class ConvolutionLayer final : public LayerKernel {
 public:
  ConvolutionLayer(LayerContext& context, const Convolution& spec, const Activation& after,
                   const Shape& in)
      : context_(context),
        plans_(context.libraries, spec, in, context.precision, after),
        after_(after),
        outputs_(spec.output_channels),
        inputs_(in[3] / spec.groups),
        taps_(window_of(spec).taps()),
        bias_(spec.bias),
        in_bytes_(bytes_of(in)),
        out_bytes_(bytes_of(window_of(spec).output(in, spec.output_channels))),
        pixels_(static_cast<std::int64_t>(out_bytes_ / sizeof(T)) / outputs_) {}

  bool supported() { return plans_.supported(); }

  void prepare(bool input_gradients) override {
    plans_.forward_workspace();
    plans_.weight_gradient_workspace();
    if (input_gradients) plans_.input_gradient_workspace();
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const Workspace<T> weights = krsc(stream, a.parameters[0]);
    const Rounded<T> own_bias(context_, stream, bias_ ? a.parameters[1] : nullptr,
                              bias_ ? outputs_ : 0);
    const AlignedTensor bias(context_, stream, own_bias.get(),
                             bias_ ? static_cast<std::size_t>(outputs_) * sizeof(T) : 0);
    const AlignedTensor x(context_, stream, a.inputs[0], in_bytes_);
    const AlignedTensor y(context_, stream, a.output, out_bytes_);
    const Workspace<> workspace = plan_memory(stream, plans_.forward_workspace());
    plans_.forward(handle(stream), x.read(stream), weights.get(), bias.read(stream), y.write(),
                   workspace.get());
    y.written(stream);
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    float* const dbias = wanted(a.parameter_gradients, 1);
    const Workspace<> masked(context_, stream, keeps_gradient(a) ? bytes() : 0);
    std::byte* const passed = keeps_gradient(a) ? masked.get() : a.output_gradient;
    pass_activation(stream, a, as<T>(passed), dbias);
    const AlignedTensor gradient(context_, stream, passed, out_bytes_);
    const void* const dy = gradient.read(stream);
    if (float* const dweight = wanted(a.parameter_gradients, 0)) {
      weight_gradient(stream, a, dy, dweight);
    }
    if (std::byte* const gradient_in = wanted(a.input_gradients, 0)) {
      const AlignedTensor dx(context_, stream, gradient_in, in_bytes_);
      const Workspace<T> weights = krsc(stream, a.parameters[0]);
      const Workspace<> workspace = plan_memory(stream, plans_.input_gradient_workspace());
      plans_.input_gradient(handle(stream), dy, weights.get(), dx.write(), workspace.get());
      dx.written(stream);
    }
  }

 private:
  // The first half of a split backward leaves the output's gradient to the second.
  bool keeps_gradient(const BackwardArguments& a) const {
    return after_ == Activation::relu && a.parameter_gradients.empty();
  }
  // To `passed`, what the activation lets through of the output's gradient, and its sums to dbias.
  void pass_activation(Stream& stream, const BackwardArguments& a, T* passed, float* dbias) const {
    const T* const dy = as<T>(a.output_gradient);
    const bool relu = after_ == Activation::relu;
    if (dbias == nullptr) {
      if (relu) {
        elementwise_backward(Relu{}, as<T>(a.output), dy, passed, pixels_ * outputs_,
                             handle(stream));
      }
      return;
    }
    const Workspace<> scratch =
        plan_memory(stream, column_sums_scratch_bytes<T>(pixels_, outputs_));
    if (relu) {
      relu_backward_sums(pixels_, outputs_, as<T>(a.output), dy, passed, dbias, scratch.get(),
                         handle(stream));
    } else {
      column_sums(pixels_, outputs_, dy, dbias, scratch.get(), handle(stream));
    }
  }
  std::int64_t bytes() const { return static_cast<std::int64_t>(out_bytes_); }
  static std::size_t bytes_of(const Shape& shape) {
    return static_cast<std::size_t>(shape.elements()) * sizeof(T);
  }
  std::int64_t weights() const { return outputs_ * inputs_ * taps_; }
  Workspace<> plan_memory(Stream& stream, std::size_t bytes) const {
    return {context_, stream, static_cast<std::int64_t>(bytes)};
  }
  // The model keeps weights as (O, I/groups, KH, KW).
  Workspace<T> krsc(Stream& stream, const float* oihw) const {
    Workspace<T> copy(context_, stream, weights());
    weights_to_krsc(oihw, copy.get(), outputs_, inputs_, taps_, handle(stream));
    return copy;
  }
  void weight_gradient(Stream& stream, const BackwardArguments& a, const void* dy, float* dweight) {
    const AlignedTensor x(context_, stream, a.inputs[0], in_bytes_);
    const Workspace<> workspace = plan_memory(stream, plans_.weight_gradient_workspace());
    const Workspace<T> gradient(context_, stream, weights());
    plans_.weight_gradient(handle(stream), x.read(stream), dy, gradient.get(), workspace.get());
    gradient_from_krsc(static_cast<const T*>(gradient.get()), dweight, outputs_, inputs_, taps_,
                       handle(stream));
  }

  LayerContext& context_;
  ConvolutionPlans plans_;
  Activation after_;
  std::int64_t outputs_, inputs_, taps_;
  bool bias_;
  std::size_t in_bytes_, out_bytes_;
  std::int64_t pixels_;
};

}  // namespace

LayerMaker make_convolution(LayerContext& context, const Convolution& spec, const Shape& in) {
  return make_of_type<ConvolutionLayer>(context, spec, Activation::none, in);
}

LayerMaker make_convolution_relu(LayerContext& context, const Convolution& spec, const Shape& in) {
  const auto make = [&]<class T>(T) -> LayerMaker {
    auto kernel = std::make_unique<ConvolutionLayer<T>>(context, spec, Activation::relu, in);
    return kernel->supported() ? std::move(kernel) : nullptr;
  };
  return with_type(context, make);
}

}  // namespace hetpipe::cuda
