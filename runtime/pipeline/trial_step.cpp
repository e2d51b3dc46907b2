// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/trial_step.h"

#include "base/index.h"

namespace hetpipe {
namespace {

Buffer zeros(const Stage& stage, std::int64_t bytes, MemoryKind kind) {
  const std::int64_t floats = (bytes + 3) / 4;
  Buffer buffer(stage.device(), stage.stream(), at(floats) * sizeof(float), kind);
  if (floats > 0) stage.device().fill(stage.stream(), buffer.as<float>(), 0, floats);
  return buffer;
}

// A pass before its forward, as if all that it reads had come.
Pass arrived(const Stage& stage, std::int64_t samples) {
  const Model& model = stage.model();
  Pass pass;
  pass.samples = samples;
  for (std::int64_t i = 0; i < samples; ++i) pass.keys.push_back({0, i});
  if (stage.reads_samples()) {
    const ElementType type = sample_type(model, stage.device().element_type());
    const std::int64_t elements = model.batch_shape(static_cast<int>(samples)).elements();
    pass.images =
        zeros(stage, elements * static_cast<std::int64_t>(bytes_of(type)), MemoryKind::activations);
  }
  if (stage.has_loss()) {
    pass.labels = zeros(stage, static_cast<std::int64_t>(most_bytes_of_labels(model, samples)),
                        MemoryKind::activations);
  }
  for (const Transfer& transfer : stage.incoming()) {
    pass.activations_in.push_back(
        {&transfer, zeros(stage, stage.transfer_bytes(transfer, samples), MemoryKind::messages)});
  }
  return pass;
}

struct Scratch {
  Buffer foreign, statistics, gradients, uses;
  explicit Scratch(const Stage& stage)
      : foreign(floats(stage, stage.parameters().foreign_count(), MemoryKind::versions)),
        statistics(floats(stage, stage.statistics().count(), MemoryKind::weights)),
        gradients(floats(stage, stage.parameters().count(), MemoryKind::gradients)),
        uses(floats(stage, stage.parameters().use_count(), MemoryKind::gradients)) {}
  static Buffer floats(const Stage& stage, std::int64_t count, MemoryKind kind) {
    return zeros(stage, count * static_cast<std::int64_t>(sizeof(float)), kind);
  }
};

void train(Stage& stage, std::int64_t samples, const StageWeights& weights, const Scratch& scratch,
           bool split_backward) {
  Pass pass = arrived(stage, samples);
  stage.forward(pass, weights, scratch.statistics.as<float>(), Mode::train);
  stage.drop_what_backward_does_not_need(pass);
  for (const Transfer& transfer : stage.outgoing()) {
    pass.gradients_in.push_back(
        {&transfer, zeros(stage, stage.gradient_bytes(transfer, samples), MemoryKind::messages)});
  }
  const StageGradients gradients(scratch.gradients.as<float>(), scratch.uses.as<float>());
  if (split_backward) {
    stage.backward(pass, weights, nullptr, BackwardPart::inputs);
    stage.weight_gradient(pass, weights, gradients, Gradients::overwrite);
  } else {
    stage.backward(pass, weights, gradients);
  }
}

}  // namespace

std::size_t most_bytes_of_labels(const Model& model, std::int64_t samples) {
  return at(samples * (model.labels_per_sample() + 2)) * sizeof(std::int32_t);
}

void enqueue_trial_step(const std::vector<Stage*>& chunks, const StepSizes& sizes,
                        const float* weights, Optimizer& optimizer, bool split_backward) {
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    Stage& stage = *chunks[c];
    const Scratch scratch(stage);
    const StageWeights of(weights, scratch.foreign.as<float>());
    for (const std::int64_t samples : sizes.train[c]) {
      stage.prepare(samples);
      train(stage, samples, of, scratch, split_backward);
    }
    for (const std::int64_t samples : sizes.evaluate[c]) {
      Pass pass = arrived(stage, samples);
      stage.forward(pass, of, scratch.statistics.as<float>(), Mode::evaluate);
    }
    weights += stage.parameters().count();
  }
  optimizer.prepare();
}

}  // namespace hetpipe
