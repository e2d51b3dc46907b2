// SPDX-License-Identifier: Apache-2.0
#include "kernels/joint_loss.h"

#include "base/index.h"
#include "kernels/buffer.h"

namespace hetpipe {
namespace {

constexpr std::int64_t kAlignment = 256;  // bytes, of each term's part of the stash

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class JointLossKernel final : public LayerKernel {
 public:
  JointLossKernel(Device& device, const JointLoss& spec, const std::vector<Shape>& inputs)
      : device_(device), samples_(inputs.front()[0]) {
    std::vector<std::int64_t> labels_at{0};
    for (const std::int64_t size : spec.label_sizes) {
      labels_at.push_back(labels_at.back() + size * samples_);
    }
    for (std::size_t i = 0; i < spec.terms.size(); ++i) {
      const LayerSpec loss = loss_of(spec.terms[i]);
      Term& term = terms_.emplace_back();
      term.kernel = device.make_kernel(loss, {inputs[i]}, 0);
      term.shapes = infer_shapes(loss, {inputs[i]});
      term.kernel->adjust(term.shapes);
      term.weight = spec.terms[i].weight;
      const auto* classes = std::get_if<SoftmaxCrossEntropy>(&loss);
      term.classes = classes != nullptr;
      term.weighs = classes != nullptr && (classes->skips || !classes->class_weights.empty());
      term.labels_at = labels_at[at(spec.terms[i].labels)];
      term.stash_at = stash_bytes_;
      stash_bytes_ += aligned(term.shapes.stash_bytes);
    }
  }

  void adjust(LayerShapes& shapes) const override {
    shapes.stash_bytes = stash_bytes_;
    shapes.backward_needs_input = false;
    shapes.backward_reads.clear();
    for (const Term& term : terms_) {
      shapes.backward_reads.push_back(term.shapes.backward_needs_input);
      shapes.backward_needs_input |= term.shapes.backward_needs_input;
    }
  }

  void prepare(bool input_gradients) override {
    for (const Term& term : terms_) term.kernel->prepare(input_gradients);
  }

  void forward(Stream& stream, const ForwardArguments& a) override {
    const Buffer losses(device_, stream, at(samples_) * sizeof(float), MemoryKind::workspace);
    auto* sum = reinterpret_cast<float*>(a.output);
    device_.fill(stream, sum, 0, samples_);
    bool counted = false;
    for (std::size_t i = 0; i < terms_.size(); ++i) {
      const Term& term = terms_[i];
      ForwardArguments own = a;
      own.inputs = a.inputs.subspan(i, 1);
      own.output = losses.data();
      own.stash = a.stash == nullptr ? nullptr : a.stash + term.stash_at;
      own.labels = a.labels == nullptr ? nullptr : a.labels + term.labels_at;
      own.correct = term.classes && !counted ? a.correct : nullptr;
      own.loss_weight = term.weighs ? a.loss_weight : 0;
      counted |= term.classes;
      term.kernel->forward(stream, own);
      device_.scale(stream, losses.as<float>(), term.weight, samples_);
      device_.add(stream, sum, losses.as<float>(), samples_);
    }
    if (!counted && a.correct != nullptr) {
      device_.fill(stream, reinterpret_cast<float*>(a.correct), 0, samples_);  // the bits of 0
    }
  }

  void backward(Stream& stream, const BackwardArguments& a) override {
    for (std::size_t i = 0; i < terms_.size() && !a.input_gradients.empty(); ++i) {
      const Term& term = terms_[i];
      BackwardArguments own = a;
      own.inputs = a.inputs.subspan(i, 1);
      own.stash = a.stash + term.stash_at;
      own.labels = a.labels == nullptr ? nullptr : a.labels + term.labels_at;
      own.input_gradients = a.input_gradients.subspan(i, 1);
      own.loss_weight = term.weighs ? a.loss_weight : 0;
      own.loss_scale = a.loss_scale * term.weight;
      term.kernel->backward(stream, own);
    }
  }

 private:
  struct Term {
    std::unique_ptr<LayerKernel> kernel;
    LayerShapes shapes;
    float weight = 1;
    bool classes = false;
    bool weighs = false;  // its labels, differently
    std::int64_t labels_at = 0;
    std::int64_t stash_at = 0;
  };

  Device& device_;
  std::int64_t samples_;
  std::vector<Term> terms_;
  std::int64_t stash_bytes_ = 0;
};

}  // namespace

LayerSpec loss_of(const JointLoss::Term& term) {
  return std::visit([](const auto& loss) -> LayerSpec { return loss; }, term.loss);
}

std::unique_ptr<LayerKernel> make_joint_loss(Device& device, const JointLoss& spec,
                                             const std::vector<Shape>& inputs) {
  return std::make_unique<JointLossKernel>(device, spec, inputs);
}

}  // namespace hetpipe
