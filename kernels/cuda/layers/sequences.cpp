// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check.h"
#include "kernels/cuda/layers/packed_arrays.h"
#include "kernels/cuda/own/convert.h"
#include "kernels/cuda/own/elementwise.h"
#include "kernels/cuda/own/embedding.h"
#include "kernels/cuda/own/flat.h"
#include "kernels/cuda/own/loss.h"
#include "kernels/cuda/own/regression_loss.h"

namespace hetpipe::cuda {
namespace {

// Tokens and labels were checked when the data was read; one outside all the same makes NaNs, and
// so ends the run as a numerical failure.
template <class T>
class EmbeddingLayer final : public LayerKernel {
 public:
  EmbeddingLayer(LayerContext& context, const Embedding& spec, const Shape& in)
      : context_(context),
        sizes_{in.elements(), spec.vocabulary, spec.features},
        padding_(spec.padding) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    const Workspace<std::int32_t> outside(context_, stream, 1);
    embedding_forward(sizes_, as<float>(a.inputs[0]), a.parameters[0], as<T>(a.output),
                      outside.get(), handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {  // of tokens: none
      check(cudaMemsetAsync(dx, 0, static_cast<std::size_t>(sizes_.rows) * sizeof(float),
                            handle(stream)),
            "clearing the gradient of tokens");
    }
    float* const dweight = wanted(a.parameter_gradients, 0);
    if (dweight == nullptr) return;
    const Workspace<std::int32_t> outside(context_, stream, 1);
    const Workspace<> scratch(context_, stream,
                              static_cast<std::int64_t>(embedding_scratch_bytes(sizes_)));
    embedding_weight_gradient(sizes_, as<float>(a.inputs[0]), as<T>(a.output_gradient), dweight,
                              outside.get(), scratch.get(), handle(stream));
    if (padding_ < 0) return;
    check(
        cudaMemsetAsync(dweight + padding_ * sizes_.features, 0,
                        static_cast<std::size_t>(sizes_.features) * sizeof(float), handle(stream)),
        "clearing the gradient of an embedding's padding");
  }

 private:
  LayerContext& context_;
  EmbeddingSizes sizes_;
  std::int64_t padding_;
};

template <class T>
class PositionLayer final : public LayerKernel {
 public:
  PositionLayer(LayerContext& context, const PositionEmbedding& spec, const Shape& in)
      : context_(context),
        batch_(in[0]),
        count_(in[1] * in[2]),
        weights_((spec.positions == 0 ? in[1] : spec.positions) * in[2]) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    position_forward(batch_, count_, as<T>(a.inputs[0]), a.parameters[0], as<T>(a.output),
                     handle(stream));
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    if (float* const dweight = wanted(a.parameter_gradients, 0)) {
      const Workspace<> scratch(
          context_, stream, static_cast<std::int64_t>(position_scratch_bytes<T>(batch_, count_)));
      position_weight_gradient(batch_, count_, weights_, as<T>(a.output_gradient), dweight,
                               scratch.get(), handle(stream));
    }
    if (std::byte* const dx = wanted(a.input_gradients, 0)) {
      copy(as<T>(a.output_gradient), as<T>(dx), batch_ * count_, handle(stream));
    }
  }

 private:
  LayerContext& context_;
  std::int64_t batch_, count_, weights_;
};

template <class T>
class LossLayer final : public LayerKernel {
 public:
  LossLayer(LayerContext& context, const SoftmaxCrossEntropy& spec, const Shape& in)
      : context_(context),
        smoothing_(spec.smoothing),
        sizes_{in[0], in.rank() == 3 ? in[1] : 1, in[in.rank() - 1], spec.labelled, spec.skips} {
    sizes_.mixed = spec.mixed;
    if (spec.class_weights.empty()) return;
    PackedArrays arrays;
    arrays.add(spec.class_weights.data(), static_cast<std::size_t>(sizes_.classes));
    weights_ = KeptArrays(context, arrays);
    sizes_.weights = weights_.template at<float>(0);
    double sum = 0;
    for (std::int64_t j = 0; j < sizes_.classes; ++j) {
      sum += static_cast<double>(spec.class_weights[j]);
    }
    sizes_.weight_sum = static_cast<float>(sum);
  }

  // Two numbers of each token, and the logits, instead of all probabilities.
  void adjust(LayerShapes& shapes) const override {
    shapes.stash_bytes = sizes_.rows() * static_cast<std::int64_t>(sizeof(SoftmaxSums));
    shapes.backward_needs_input = true;
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const bool train = a.mode == Mode::train;
    const Workspace<std::int32_t> outside(context_, stream, 1);
    const Workspace<> scratch(context_, stream,
                              static_cast<std::int64_t>(loss_scratch_bytes(sizes_)));
    LossSizes sizes = sizes_;
    sizes.mixed &= train;
    loss_forward(sizes, train ? smoothing_ : 0.0f, as<T>(a.inputs[0]), a.labels,
                 as<float>(a.output), a.correct,
                 train ? reinterpret_cast<SoftmaxSums*>(a.stash) : nullptr, outside.get(),
                 scratch.get(), handle(stream));
    if (a.loss_weight > 0) {
      const double factor = static_cast<double>(sizes_.predictions()) / a.loss_weight;
      scale(as<float>(a.output), static_cast<float>(factor), sizes_.batch, handle(stream));
    }
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const double predictions =
        a.loss_weight > 0 ? a.loss_weight : static_cast<double>(sizes_.predictions());
    const auto factor = static_cast<float>(1 / (static_cast<double>(a.loss_samples) * predictions));
    loss_backward(sizes_, smoothing_, as<T>(a.inputs[0]),
                  reinterpret_cast<const SoftmaxSums*>(a.stash), a.labels, factor * a.loss_scale,
                  as<T>(dx), handle(stream));
  }

 private:
  LayerContext& context_;
  float smoothing_;
  LossSizes sizes_;
  KeptArrays weights_;  // of the classes
};

template <class T>
class RegressionLossLayer final : public LayerKernel {
 public:
  RegressionLossLayer(LayerContext&, const RegressionLoss& spec, const Shape& in)
      : sizes_{static_cast<int>(spec.kind), spec.beta, in[0], in.elements() / in[0]} {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    regression_forward(sizes_, as<T>(a.inputs[0]), reinterpret_cast<const float*>(a.labels),
                       as<float>(a.output), handle(stream));
    if (a.correct == nullptr) return;
    check(cudaMemsetAsync(a.correct, 0, static_cast<std::size_t>(sizes_.batch) * sizeof(*a.correct),
                          handle(stream)),
          "clearing the numbers of correct predictions");
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const float factor = 1.0f / static_cast<float>(a.loss_samples * sizes_.count);
    regression_backward(sizes_, as<T>(a.inputs[0]), reinterpret_cast<const float*>(a.labels),
                        factor * a.loss_scale, as<T>(dx), handle(stream));
  }

 private:
  RegressionSizes sizes_;
};

template <class T>
class OutputLossLayer final : public LayerKernel {
 public:
  OutputLossLayer(LayerContext& context, const OutputLoss&, const Shape& in)
      : context_(context), batch_(in[0]) {}

  void forward(Stream& stream, const ForwardArguments& a) override {
    convert(as<T>(a.inputs[0]), as<float>(a.output), batch_, handle(stream));
    if (a.correct == nullptr) return;
    check(cudaMemsetAsync(a.correct, 0, static_cast<std::size_t>(batch_) * sizeof(*a.correct),
                          handle(stream)),
          "clearing the numbers of correct predictions");
  }
  void backward(Stream& stream, const BackwardArguments& a) override {
    std::byte* const dx = wanted(a.input_gradients, 0);
    if (dx == nullptr) return;
    const Workspace<float> gradient(context_, stream, batch_);
    fill(gradient.get(), a.loss_scale / static_cast<float>(a.loss_samples), batch_, handle(stream));
    convert(static_cast<const float*>(gradient.get()), as<T>(dx), batch_, handle(stream));
  }

 private:
  LayerContext& context_;
  std::int64_t batch_;
};

}  // namespace

LayerMaker make_embedding(LayerContext& context, const Embedding& spec, const Shape& in) {
  return make_of_type<EmbeddingLayer>(context, spec, in);
}
LayerMaker make_positions(LayerContext& context, const PositionEmbedding& spec, const Shape& in) {
  return make_of_type<PositionLayer>(context, spec, in);
}
LayerMaker make_loss(LayerContext& context, const RegressionLoss& spec, const Shape& in) {
  return make_of_type<RegressionLossLayer>(context, spec, in);
}
LayerMaker make_loss(LayerContext& context, const OutputLoss& spec, const Shape& in) {
  return make_of_type<OutputLossLayer>(context, spec, in);
}
LayerMaker make_loss(LayerContext& context, const SoftmaxCrossEntropy& spec, const Shape& in) {
  return make_of_type<LossLayer>(context, spec, in);
}

}  // namespace hetpipe::cuda
