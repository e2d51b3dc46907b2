// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/batch_norm.h"
#include "kernels/cuda/own/layer_norm.h"

namespace hetpipe::cuda {
namespace {

// With what follows it in one pass; the residual is the second input.
template <class T>
class BatchNormLayer final : public LayerKernel {
 public:
  BatchNormLayer(LayerContext& context, const BatchNorm& spec, const NormTail& tail,
                 const Shape& in)
      : context_(context),
        momentum_(spec.momentum),
        tail_(tail),
        sizes_{in.elements() / in[in.rank() - 1], in[in.rank() - 1], spec.epsilon} {}

  void adjust(LayerShapes& shapes) const override {
    shapes.backward_in_place = true;
    shapes.backward_needs_output = reads_output();
    if (!tail_.residual) return;
    shapes.forward_in_place = true;
    shapes.in_place_input = 1;
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const float *mean = a.statistics[0], *variance = a.statistics[1];
    if (a.mode == Mode::train) {
      float* const batch = reinterpret_cast<float*>(a.stash);  // mean, then variance
      RunningStatistics running;
      running.momentum = momentum_;
      if (a.update_statistics) {
        running.mean = a.statistics[0];
        running.variance = a.statistics[1];
      }
      const Workspace<> scratch = memory(stream);
      batch_norm_statistics(sizes_, as<T>(a.inputs[0]), batch, batch + sizes_.channels, running,
                            scratch.get(), handle(stream));
      mean = batch;
      variance = batch + sizes_.channels;
    }
    const T* const residual = tail_.residual ? as<T>(a.inputs[1]) : nullptr;
    batch_norm_forward(sizes_, after(), as<T>(a.inputs[0]), mean, variance, a.parameters[0],
                       a.parameters[1], residual, as<T>(a.output), handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const batch = reinterpret_cast<const float*>(a.stash);
    BatchNormGradients<T> gradients;
    gradients.x = as<T>(a.inputs[0]);
    if (reads_output()) gradients.y = as<T>(a.output);
    gradients.dy = as<T>(a.output_gradient);
    gradients.mean = batch;
    gradients.variance = batch + sizes_.channels;
    gradients.scale = a.parameters[0];
    gradients.shift = a.parameters[1];
    gradients.dx = as<T>(wanted(a.input_gradients, 0));
    if (tail_.residual) gradients.dresidual = as<T>(wanted(a.input_gradients, 1));
    gradients.dscale = wanted(a.parameter_gradients, 0);
    gradients.dshift = wanted(a.parameter_gradients, 1);
    const Workspace<> scratch = memory(stream);
    batch_norm_backward(sizes_, after(), gradients, scratch.get(), handle(stream));
  }

 private:
  bool reads_output() const { return tail_.relu && tail_.residual; }
  AfterNorm after() const { return tail_.relu ? AfterNorm::relu : AfterNorm::nothing; }
  Workspace<> memory(Stream& stream) const {
    return {context_, stream, static_cast<std::int64_t>(batch_norm_scratch_bytes<T>(sizes_))};
  }

  LayerContext& context_;
  float momentum_;
  NormTail tail_;
  BatchNormSizes sizes_;
};

template <class T>
class LayerNormLayer final : public LayerKernel {
 public:
  LayerNormLayer(LayerContext& context, const LayerNorm& spec, const Shape& in)
      : context_(context),
        sizes_{in.elements() / in[in.rank() - 1], in[in.rank() - 1], spec.epsilon} {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    float* const mean = train ? reinterpret_cast<float*>(a.stash) : nullptr;
    layer_norm_forward(sizes_, as<T>(a.inputs[0]), a.parameters[0], a.parameters[1],
                       as<T>(a.output), mean, train ? mean + sizes_.rows : nullptr, handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const mean = reinterpret_cast<const float*>(a.stash);
    const float* const variance = mean + sizes_.rows;
    const T *const x = as<T>(a.inputs[0]), *const dy = as<T>(a.output_gradient);
    float* const dscale = wanted(a.parameter_gradients, 0);
    float* const dshift = wanted(a.parameter_gradients, 1);
    if (dscale != nullptr || dshift != nullptr) {  // first: dx may take the place of dy
      const Workspace<> scratch(context_, stream,
                                static_cast<std::int64_t>(layer_norm_scratch_bytes<T>(sizes_)));
      layer_norm_parameter_gradients(sizes_, x, mean, variance, dy, dscale, dshift, scratch.get(),
                                     handle(stream));
    }
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      layer_norm_input_gradient(sizes_, x, mean, variance, a.parameters[0], dy, as<T>(dx),
                                handle(stream));
    }
  }

 private:
  LayerContext& context_;
  LayerNormSizes sizes_;
};

}  // namespace

LayerMaker make_batch_norm(LayerContext& context, const BatchNorm& spec, const NormTail& tail,
                           const Shape& in) {
  return make_of_type<BatchNormLayer>(context, spec, tail, in);
}
LayerMaker make_layer_norm(LayerContext& context, const LayerNorm& spec, const Shape& in) {
  return make_of_type<LayerNormLayer>(context, spec, in);
}

}  // namespace hetpipe::cuda
