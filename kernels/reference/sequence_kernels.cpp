// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/host_device.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/layer_norm.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/loss.h"
#include "kernels/reference/lstm.h"
#include "kernels/reference/reference_device.h"

namespace hetpipe {
namespace {

// One kernel per layer type: the overload of forward and backward for its spec.
template <class Spec>
class SequenceKernel final : public LayerKernel {
 public:
  SequenceKernel(const Spec& spec, const Shape& in) : spec_(spec), in_(in) {}
  void forward(Stream&, const ForwardArguments& a) override { forward(spec_, a); }
  void backward(Stream&, const BackwardArguments& a) override { backward(spec_, a); }

 private:
  std::int64_t features() const { return in_[in_.rank() - 1]; }
  std::int64_t rows() const { return in_.elements() / features(); }

  void forward(const Embedding& e, const ForwardArguments& a) {
    reference::embedding_forward(in_.elements(), e.vocabulary, e.features, floats(a.inputs[0]),
                                 a.parameters[0], floats(a.output));
  }
  void backward(const Embedding& e, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) std::fill_n(dx, in_.elements(), 0.0f);
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      const auto of = reference::rows_by_token(in_.elements(), e.vocabulary, floats(a.inputs[0]));
      reference::embedding_weight_gradient(e.features, of, 0, e.vocabulary,
                                           floats(a.output_gradient), dweight);
      if (e.padding >= 0) std::fill_n(dweight + e.padding * e.features, e.features, 0.0f);
    }
  }

  void forward(const PositionEmbedding&, const ForwardArguments& a) {
    reference::position_forward(in_[0], in_[1] * in_[2], floats(a.inputs[0]), a.parameters[0],
                                floats(a.output));
  }
  void backward(const PositionEmbedding& p, const BackwardArguments& a) {
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      const std::int64_t positions = p.positions == 0 ? in_[1] : p.positions;
      reference::position_weight_gradient(in_[0], in_[1] * in_[2], 0, positions * in_[2],
                                          floats(a.output_gradient), dweight);
    }
    float* dx = wanted(a.input_gradients, 0);
    if (dx != nullptr && dx != floats(a.output_gradient)) {
      std::copy_n(floats(a.output_gradient), in_.elements(), dx);
    }
  }

  void forward(const LayerNorm& l, const ForwardArguments& a) {
    float* mean = a.mode == Mode::train ? reinterpret_cast<float*>(a.stash) : nullptr;
    for (std::int64_t r = 0; r < rows(); ++r) {
      float m = 0, variance = 0;
      reference::layer_norm_row(features(), static_cast<double>(l.epsilon),
                                floats(a.inputs[0]) + r * features(), scale_of(l, a.parameters),
                                shift_of(l, a.parameters), floats(a.output) + r * features(), m,
                                variance);
      if (mean == nullptr) continue;
      mean[r] = m;
      mean[rows() + r] = variance;
    }
  }
  void backward(const LayerNorm& l, const BackwardArguments& a) {
    const float* mean = reinterpret_cast<const float*>(a.stash);
    const double epsilon = static_cast<double>(l.epsilon);
    reference::layer_norm_parameter_gradients(
        rows(), features(), epsilon, 0, features(), floats(a.inputs[0]), mean, mean + rows(),
        floats(a.output_gradient), scale_of(l, a.parameter_gradients),
        shift_of(l, a.parameter_gradients));
    float* dx = wanted(a.input_gradients, 0);
    for (std::int64_t r = 0; dx != nullptr && r < rows(); ++r) {
      reference::layer_norm_row_gradient(features(), epsilon, floats(a.inputs[0]) + r * features(),
                                         mean[r], mean[rows() + r], scale_of(l, a.parameters),
                                         floats(a.output_gradient) + r * features(),
                                         dx + r * features());
    }
  }

  void forward(const SelfAttention& l, const ForwardArguments& a) {
    const reference::AttentionSizes s = reference::sizes_of(l, in_);
    const bool keep = a.mode == Mode::train;
    std::vector<float> one(static_cast<std::size_t>(keep ? 0 : s.tokens * s.tokens));
    reference::attention_forward(s, floats(a.inputs[0]),
                                 keep ? reinterpret_cast<float*>(a.stash) : one.data(), keep,
                                 floats(a.output));
  }
  void backward(const SelfAttention& l, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::attention_backward(reference::sizes_of(l, in_), floats(a.inputs[0]),
                                    reinterpret_cast<const float*>(a.stash),
                                    floats(a.output_gradient), dx);
    }
  }

  void forward(const Lstm& l, const ForwardArguments& a) {
    const reference::LstmSizes s = reference::sizes_of(l, in_);
    std::vector<float> kept;
    float* gates = reinterpret_cast<float*>(a.stash);
    if (a.mode == Mode::evaluate) {
      kept.resize(static_cast<std::size_t>(s.rows() * (s.gates() + s.hidden)));
      gates = kept.data();
    }
    reference::lstm_forward(s, floats(a.inputs[0]), a.parameters[0], a.parameters[1],
                            a.parameters[2], gates, gates + s.rows() * s.gates(), floats(a.output));
  }
  void backward(const Lstm& l, const BackwardArguments& a) {
    const reference::LstmSizes s = reference::sizes_of(l, in_);
    const float* gates = reinterpret_cast<const float*>(a.stash);
    std::vector<float> dgates(static_cast<std::size_t>(s.rows() * s.gates()));
    reference::lstm_gate_gradients(s, a.parameters[1], gates, gates + s.rows() * s.gates(),
                                   floats(a.output_gradient), dgates.data());
    const reference::LinearSizes input{s.rows(), s.in, s.gates()};
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::linear_input_gradient(input, dgates.data(), a.parameters[0], dx);
    }
    if (float* dweight = wanted(a.parameter_gradients, 0)) {
      reference::linear_weight_gradient(input, floats(a.inputs[0]), dgates.data(), dweight);
    }
    if (float* dweight = wanted(a.parameter_gradients, 1)) {
      reference::lstm_hidden_weight_gradient(s, floats(a.output), dgates.data(), dweight);
    }
    if (float* dbias = wanted(a.parameter_gradients, 2)) {
      reference::bias_gradient(s.rows(), s.gates(), dgates.data(), dbias);
    }
  }

  void forward(const SoftmaxCrossEntropy& l, const ForwardArguments& a) {
    const bool train = a.mode == Mode::train;
    reference::softmax_cross_entropy_forward(
        reference::sizes_of(l, in_, a.mode), train ? static_cast<double>(l.smoothing) : 0.0,
        floats(a.inputs[0]), a.labels, floats(a.output),
        train ? reinterpret_cast<float*>(a.stash) : nullptr, a.correct, a.loss_weight);
  }
  void backward(const SoftmaxCrossEntropy& l, const BackwardArguments& a) {
    if (float* dx = wanted(a.input_gradients, 0)) {
      reference::softmax_cross_entropy_backward(
          reference::sizes_of(l, in_, Mode::train), static_cast<double>(l.smoothing),
          reinterpret_cast<const float*>(a.stash), a.labels, a.loss_samples, 0, rows(), dx,
          a.loss_scale, a.loss_weight);
    }
  }

  Spec spec_;
  Shape in_;
};

}  // namespace

std::unique_ptr<LayerKernel> make_sequence_kernel(const Embedding& spec, const Shape& in) {
  return std::make_unique<SequenceKernel<Embedding>>(spec, in);
}
std::unique_ptr<LayerKernel> make_sequence_kernel(const PositionEmbedding& spec, const Shape& in) {
  return std::make_unique<SequenceKernel<PositionEmbedding>>(spec, in);
}
std::unique_ptr<LayerKernel> make_sequence_kernel(const LayerNorm& spec, const Shape& in) {
  return std::make_unique<SequenceKernel<LayerNorm>>(spec, in);
}
std::unique_ptr<LayerKernel> make_sequence_kernel(const SelfAttention& spec, const Shape& in) {
  return std::make_unique<SequenceKernel<SelfAttention>>(spec, in);
}
std::unique_ptr<LayerKernel> make_sequence_kernel(const Lstm& spec, const Shape& in) {
  return std::make_unique<SequenceKernel<Lstm>>(spec, in);
}
std::unique_ptr<LayerKernel> make_sequence_kernel(const SoftmaxCrossEntropy& spec,
                                                  const Shape& in) {
  return std::make_unique<SequenceKernel<SoftmaxCrossEntropy>>(spec, in);
}

}  // namespace hetpipe
