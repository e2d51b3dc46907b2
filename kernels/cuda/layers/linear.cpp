// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/blas/linear.h"

#include "kernels/cuda/layers/aligned_tensor.h"
#include "kernels/cuda/layers/layers.h"
#include "kernels/cuda/layers/parameters.h"
#include "kernels/cuda/own/column_sums.h"
#include "kernels/cuda/own/embedding.h"

namespace hetpipe::cuda {
namespace {

template <class T>
class LinearLayer final : public LayerKernel {
 public:
  LinearLayer(LayerContext& context, const Linear& spec, const Shape& in)
      : context_(context),
        plans_(context.libraries, spec, in, context.precision),
        rows_(in.elements() / in[in.rank() - 1]),
        weights_(in[in.rank() - 1] * spec.output_features),
        outputs_(spec.bias ? spec.output_features : 0) {}

  void prepare(bool input_gradients) override {
    plans_.forward_workspace();
    plans_.weight_gradient_workspace();
    if (input_gradients) plans_.input_gradient_workspace();
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const Rounded<T> weight(context_, stream, a.parameters[0], weights_);
    const Workspace<> workspace = memory(stream, plans_.forward_workspace());
    const auto multiply = [&](const void* bias) {
      plans_.forward(handle(stream), a.inputs[0], weight.get(), bias, a.output, workspace.get());
    };
    if (outputs_ == 0) return multiply(nullptr);
    if (plans_.adds_bias() && is_aligned(a.inputs[0]) && is_aligned(weight.get()) &&
        is_aligned(a.output)) {
      const Rounded<T> own_bias(context_, stream, a.parameters[1], outputs_);
      const AlignedTensor bias(context_, stream, own_bias.get(),
                               static_cast<std::size_t>(outputs_) * sizeof(T));
      return multiply(bias.read(stream));
    }
    multiply(nullptr);
    T* const y = as<T>(a.output);  // a bias is added as positions are: row by row, in place
    position_forward(rows_, outputs_, y, a.parameters[1], y, handle(stream));
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    float* const dweight = wanted(a.parameter_gradients, 0);
    float* const dbias = wanted(a.parameter_gradients, 1);
    if (dweight != nullptr || dbias != nullptr) parameter_gradients(stream, a, dweight, dbias);
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      const Rounded<T> weight(context_, stream, a.parameters[0], weights_);
      const Workspace<> workspace = memory(stream, plans_.input_gradient_workspace());
      plans_.input_gradient(handle(stream), a.output_gradient, weight.get(), dx, workspace.get());
    }
  }

 private:
  // One product makes both, where it can; what nobody wants goes to workspace.
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
  LinearPlans plans_;
  std::int64_t rows_, weights_, outputs_;  // no outputs: no bias
};

}  // namespace

LayerMaker make_linear(LayerContext& context, const Linear& spec, const Shape& in) {
  return make_of_type<LinearLayer>(context, spec, in);
}

}  // namespace hetpipe::cuda
