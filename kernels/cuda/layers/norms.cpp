// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/own/batch_norm.h"
#include "kernels/cuda/own/flat.h"
#include "kernels/cuda/own/group_norm.h"
#include "kernels/cuda/own/layer_norm.h"

namespace hetpipe::cuda {
namespace {

// In place of parameters that a layer does not have.
class Constants {
 public:
  Constants(const LayerContext& context, Stream& stream, std::int64_t count)
      : values_(context, stream, 2 * count), count_(count) {
    if (count == 0) return;
    fill(values_.get(), 1, count, handle(stream));
    fill(values_.get() + count, 0, count, handle(stream));
  }
  const float* ones() const { return values_.get(); }
  const float* zeros() const { return values_.get() + count_; }

 private:
  Workspace<float> values_;
  std::int64_t count_;
};

// With what follows it in one pass; the residual is the second input.
template <class T>
class BatchNormLayer final : public LayerKernel {
 public:
  BatchNormLayer(LayerContext& context, const BatchNorm& spec, const NormTail& tail,
                 const Shape& in)
      : context_(context),
        momentum_(spec.momentum),
        affine_(spec.affine),
        tracked_(spec.tracked),
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
    const float* mean = tracked_ ? a.statistics[0] : nullptr;
    const float* variance = tracked_ ? a.statistics[1] : nullptr;
    const Workspace<float> own(context_, stream,
                               a.mode == Mode::train || tracked_ ? 0 : 2 * sizes_.channels);
    if (a.mode == Mode::train || !tracked_) {
      // Mean, then variance.
      float* const batch = a.mode == Mode::train ? reinterpret_cast<float*>(a.stash) : own.get();
      RunningStatistics running;
      running.momentum = momentum_;
      if (a.update_statistics && tracked_) {
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
    const Constants constants(context_, stream, affine_ ? 0 : sizes_.channels);
    batch_norm_forward(sizes_, after(), as<T>(a.inputs[0]), mean, variance,
                       affine_ ? a.parameters[0] : constants.ones(),
                       affine_ ? a.parameters[1] : constants.zeros(), residual, as<T>(a.output),
                       handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const batch = reinterpret_cast<const float*>(a.stash);
    BatchNormGradients<T> gradients;
    gradients.x = as<T>(a.inputs[0]);
    if (reads_output()) gradients.y = as<T>(a.output);
    gradients.dy = as<T>(a.output_gradient);
    gradients.mean = batch;
    gradients.variance = batch + sizes_.channels;
    const Constants constants(context_, stream, affine_ ? 0 : sizes_.channels);
    gradients.scale = affine_ ? a.parameters[0] : constants.ones();
    gradients.shift = affine_ ? a.parameters[1] : constants.zeros();
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
  bool affine_, tracked_;
  NormTail tail_;
  BatchNormSizes sizes_;
};

template <class T>
class LayerNormLayer final : public LayerKernel {
 public:
  LayerNormLayer(LayerContext& context, const LayerNorm& spec, const Shape& in)
      : context_(context),
        spec_(spec),
        sizes_{in.elements() / in[in.rank() - 1], in[in.rank() - 1], spec.epsilon} {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    float* const mean = train ? reinterpret_cast<float*>(a.stash) : nullptr;
    const Constants constants = constants_for(stream);
    const float* const shift = shift_of(a.parameters);
    layer_norm_forward(sizes_, as<T>(a.inputs[0]),
                       spec_.scaled ? a.parameters[0] : constants.ones(),
                       shift != nullptr ? shift : constants.zeros(), as<T>(a.output), mean,
                       train ? mean + sizes_.rows : nullptr, handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const mean = reinterpret_cast<const float*>(a.stash);
    const float* const variance = mean + sizes_.rows;
    const T *const x = as<T>(a.inputs[0]), *const dy = as<T>(a.output_gradient);
    float* const dscale = spec_.scaled ? wanted(a.parameter_gradients, 0) : nullptr;
    float* const dshift = shift_of(a.parameter_gradients);
    if (dscale != nullptr || dshift != nullptr) {  // first: dx may take the place of dy
      const Workspace<> scratch(context_, stream,
                                static_cast<std::int64_t>(layer_norm_scratch_bytes<T>(sizes_)));
      layer_norm_parameter_gradients(sizes_, x, mean, variance, dy, dscale, dshift, scratch.get(),
                                     handle(stream));
    }
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      const Constants constants = constants_for(stream);
      layer_norm_input_gradient(sizes_, x, mean, variance,
                                spec_.scaled ? a.parameters[0] : constants.ones(), dy, as<T>(dx),
                                handle(stream));
    }
  }

 private:
  template <class P>
  P* shift_of(std::span<P* const> parameters) const {
    return spec_.shifted ? wanted(parameters, spec_.scaled ? 1 : 0) : nullptr;
  }
  Constants constants_for(Stream& stream) const {
    return {context_, stream, spec_.scaled && spec_.shifted ? 0 : sizes_.features};
  }

  LayerContext& context_;
  LayerNorm spec_;
  LayerNormSizes sizes_;
};

template <class T>
class RmsNormLayer final : public LayerKernel {
 public:
  RmsNormLayer(LayerContext& context, const RmsNorm& spec, const Shape& in)
      : context_(context),
        sizes_{in.elements() / in[in.rank() - 1], in[in.rank() - 1], spec.epsilon, spec.one_plus} {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    rms_norm_forward(sizes_, as<T>(a.inputs[0]), wanted(a.parameters, 0), as<T>(a.output),
                     a.mode == Mode::train ? reinterpret_cast<float*>(a.stash) : nullptr,
                     handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const square = reinterpret_cast<const float*>(a.stash);
    const T *const x = as<T>(a.inputs[0]), *const dy = as<T>(a.output_gradient);
    if (float* const dscale = wanted(a.parameter_gradients, 0)) {  // first: dx may be dy
      const Workspace<> scratch(context_, stream,
                                static_cast<std::int64_t>(rms_norm_scratch_bytes<T>(sizes_)));
      rms_norm_scale_gradient(sizes_, x, square, dy, dscale, scratch.get(), handle(stream));
    }
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      rms_norm_input_gradient(sizes_, x, square, wanted(a.parameters, 0), dy, as<T>(dx),
                              handle(stream));
    }
  }

 private:
  LayerContext& context_;
  RmsNormSizes sizes_;
};

template <class T>
class GroupNormLayer final : public LayerKernel {
 public:
  GroupNormLayer(LayerContext& context, const GroupNorm& spec, const Shape& in)
      : context_(context),
        sizes_{in[0], in.elements() / in[0] / in[in.rank() - 1], in[in.rank() - 1], spec.groups,
               spec.epsilon} {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    float* const mean = a.mode == Mode::train ? reinterpret_cast<float*>(a.stash) : nullptr;
    group_norm_forward(sizes_, as<T>(a.inputs[0]), wanted(a.parameters, 0), wanted(a.parameters, 1),
                       as<T>(a.output), mean, mean == nullptr ? nullptr : mean + groups(),
                       handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    const float* const mean = reinterpret_cast<const float*>(a.stash);
    const float* const variance = mean + groups();
    const T *const x = as<T>(a.inputs[0]), *const dy = as<T>(a.output_gradient);
    float* const dscale = wanted(a.parameter_gradients, 0);
    float* const dshift = wanted(a.parameter_gradients, 1);
    if (dscale != nullptr || dshift != nullptr) {  // first: dx may take the place of dy
      const Workspace<> scratch(context_, stream,
                                static_cast<std::int64_t>(group_norm_scratch_bytes<T>(sizes_)));
      group_norm_parameter_gradients(sizes_, x, mean, variance, dy, dscale, dshift, scratch.get(),
                                     handle(stream));
    }
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      group_norm_input_gradient(sizes_, x, mean, variance, wanted(a.parameters, 0), dy, as<T>(dx),
                                handle(stream));
    }
  }

 private:
  std::int64_t groups() const { return sizes_.batch * sizes_.groups; }

  LayerContext& context_;
  GroupNormSizes sizes_;
};

}  // namespace

LayerMaker make_batch_norm(LayerContext& context, const BatchNorm& spec, const NormTail& tail,
                           const Shape& in) {
  return make_of_type<BatchNormLayer>(context, spec, tail, in);
}
LayerMaker make_layer_norm(LayerContext& context, const LayerNorm& spec, const Shape& in) {
  return make_of_type<LayerNormLayer>(context, spec, in);
}

LayerMaker make_rms_norm(LayerContext& context, const RmsNorm& spec, const Shape& in) {
  return make_of_type<RmsNormLayer>(context, spec, in);
}
LayerMaker make_group_norm(LayerContext& context, const GroupNorm& spec, const Shape& in) {
  return make_of_type<GroupNormLayer>(context, spec, in);
}

}  // namespace hetpipe::cuda
