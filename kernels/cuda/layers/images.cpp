// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/images.h"

#include <algorithm>

#include "kernels/cuda/dnn/convolution.h"
#include "kernels/cuda/layers/aligned_tensor.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/column_sums.h"
#include "kernels/cuda/own/convert.h"
#include "kernels/cuda/own/embedding.h"
#include "kernels/reference/convolution.h"
#include "kernels/resize.h"

namespace hetpipe::cuda {
namespace {

// The passes of the convolution whose input gradient this is; its bias in a pass of its own.
template <class T>
class TransposedConvolutionLayer final : public LayerKernel {
 public:
  TransposedConvolutionLayer(LayerContext& context, const TransposedConvolution& spec,
                             const Shape& in)
      : context_(context),
        gradient_(reference::gradient_of(spec, in)),
        in_(in),
        out_(transposed_output(spec, in)),
        plans_(context.libraries, gradient_, out_, context.precision),
        bias_(spec.bias),
        inputs_(out_[3] / spec.groups),
        taps_(window_of(gradient_).taps()) {}

  void prepare(bool input_gradients) override {
    plans_.input_gradient_workspace();
    plans_.weight_gradient_workspace();
    if (input_gradients) plans_.forward_workspace();
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const Workspace<T> weights = krsc(stream, a.parameters[0]);
    const AlignedTensor x(context_, stream, a.inputs[0], bytes_of(in_));
    const AlignedTensor y(context_, stream, a.output, bytes_of(out_));
    const Workspace<> workspace = plan_memory(stream, plans_.input_gradient_workspace());
    plans_.input_gradient(handle(stream), x.read(stream), weights.get(), y.write(),
                          workspace.get());
    y.written(stream);
    if (!bias_) return;
    position_forward(pixels(), out_[3], as<T>(std::as_const(a.output)), a.parameters[1],
                     as<T>(a.output), handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    if (float* const dbias = wanted(a.parameter_gradients, 1)) {
      const Workspace<> scratch =
          plan_memory(stream, column_sums_scratch_bytes<T>(pixels(), out_[3]));
      column_sums(pixels(), out_[3], as<T>(std::as_const(a.output_gradient)), dbias, scratch.get(),
                  handle(stream));
    }
    const AlignedTensor gradient(context_, stream, a.output_gradient, bytes_of(out_));
    const void* const dy = gradient.read(stream);
    if (float* const dweight = wanted(a.parameter_gradients, 0)) {
      const AlignedTensor x(context_, stream, a.inputs[0], bytes_of(in_));
      const Workspace<> workspace = plan_memory(stream, plans_.weight_gradient_workspace());
      const Workspace<T> krsc_gradient(context_, stream, weights());
      plans_.weight_gradient(handle(stream), dy, x.read(stream), krsc_gradient.get(),
                             workspace.get());
      gradient_from_krsc(static_cast<const T*>(krsc_gradient.get()), dweight, in_[3], inputs_,
                         taps_, handle(stream));
    }
    if (std::byte* const gradient_in = wanted(a.input_gradients, 0)) {
      const AlignedTensor dx(context_, stream, gradient_in, bytes_of(in_));
      const Workspace<T> weights = krsc(stream, a.parameters[0]);
      const Workspace<> workspace = plan_memory(stream, plans_.forward_workspace());
      plans_.forward(handle(stream), dy, weights.get(), nullptr, dx.write(), workspace.get());
      dx.written(stream);
    }
  }

 private:
  static std::size_t bytes_of(const Shape& shape) {
    return static_cast<std::size_t>(shape.elements()) * sizeof(T);
  }
  std::int64_t pixels() const { return out_.elements() / out_[3]; }
  std::int64_t weights() const { return in_[3] * inputs_ * taps_; }
  Workspace<> plan_memory(Stream& stream, std::size_t bytes) const {
    return {context_, stream, static_cast<std::int64_t>(bytes)};
  }
  // The model keeps weights as (I, O/groups, KH, KW), I being the outputs of the plans.
  Workspace<T> krsc(Stream& stream, const float* weight) const {
    Workspace<T> copy(context_, stream, weights());
    weights_to_krsc(weight, copy.get(), in_[3], inputs_, taps_, handle(stream));
    return copy;
  }

  LayerContext& context_;
  Convolution gradient_;
  Shape in_, out_;
  ConvolutionPlans plans_;
  bool bias_;
  std::int64_t inputs_, taps_;
};

template <class T>
class ResizeLayer final : public LayerKernel {
 public:
  ResizeLayer(LayerContext&, const Resize& spec, const Shape& in)
      : in_(in),
        rows_(resize_axis(spec.kind, in[1], spec.rows, spec.row_step)),
        columns_(resize_axis(spec.kind, in[2], spec.columns, spec.column_step)) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    resize_forward(rows_, columns_, in_, as<T>(a.inputs[0]), as<T>(a.output), handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      resize_backward(rows_, columns_, in_, as<T>(std::as_const(a.output_gradient)), as<T>(dx),
                      handle(stream));
    }
  }

 private:
  Shape in_;
  ResizeAxis rows_, columns_;
};

template <class T>
class AdaptivePoolLayer final : public LayerKernel {
 public:
  AdaptivePoolLayer(LayerContext&, const AdaptivePool& spec, const Shape& in)
      : spec_(spec), in_(in) {}
  void forward(Stream& stream, const ForwardArguments& a) override {
    const T* const x = as<T>(a.inputs[0]);
    if (spec_.maximum) {
      auto* const winner =
          a.mode == Mode::train ? reinterpret_cast<std::int32_t*>(a.stash) : nullptr;
      adaptive_max_forward(spec_.rows, spec_.columns, in_, x, as<T>(a.output), winner,
                           handle(stream));
    } else {
      adaptive_average_forward(spec_.rows, spec_.columns, in_, x, as<T>(a.output), handle(stream));
    }
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const T* const dy = as<T>(std::as_const(a.output_gradient));
    if (spec_.maximum) {
      adaptive_max_backward(spec_.rows, spec_.columns, in_, dy,
                            reinterpret_cast<const std::int32_t*>(a.stash), as<T>(dx),
                            handle(stream));
    } else {
      adaptive_average_backward(spec_.rows, spec_.columns, in_, dy, as<T>(dx), handle(stream));
    }
  }

 private:
  AdaptivePool spec_;
  Shape in_;
};

}  // namespace

LayerMaker make_transposed_convolution(LayerContext& context, const TransposedConvolution& spec,
                                       const Shape& in) {
  return make_of_type<TransposedConvolutionLayer>(context, spec, in);
}
LayerMaker make_resize(LayerContext& context, const Resize& spec, const Shape& in) {
  return make_of_type<ResizeLayer>(context, spec, in);
}
LayerMaker make_pooling(LayerContext& context, const AdaptivePool& spec, const Shape& in) {
  if (!spec.maximum && spec.rows == 1 && spec.columns == 1) {  // (N, C) lies as (N, 1, 1, C)
    return make_pooling(context, GlobalAveragePool{}, in);
  }
  return make_of_type<AdaptivePoolLayer>(context, spec, in);
}

}  // namespace hetpipe::cuda
