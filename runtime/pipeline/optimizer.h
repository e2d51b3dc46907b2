// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/fields.h"
#include "base/ids.h"
#include "kernels/buffer.h"
#include "runtime/pipeline/clipping.h"
#include "runtime/pipeline/learning_rate.h"

namespace hetpipe {

struct OptimizerOptions {
  std::string name = "sgd-momentum";  // sgd, sgd-momentum, adam
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
  RateSchedule schedule{};  // of the learning rate
  Clipping clipping{};
};
constexpr auto fields_of(Type<OptimizerOptions>) {
  return fields<&OptimizerOptions::name, &OptimizerOptions::learning_rate,
                &OptimizerOptions::momentum, &OptimizerOptions::weight_decay,
                &OptimizerOptions::schedule, &OptimizerOptions::clipping>;
}

// Names of an optimizer's state, as checkpoints store it: {} for sgd, {"velocity"},
// {"first_moment", "second_moment"}. UserError for an unknown optimizer.
std::vector<std::string> optimizer_slot_names(const std::string& optimizer);

// The optimizer of one stage of one virtual worker; its state is local to both. It yields the
// applied weight change and leaves adding it to the owner of the weights.
class Optimizer {
 public:
  Optimizer(OptimizerOptions options, Device& device, Stream& stream, const ParameterLayout& layout)
      : Optimizer(std::move(options), device, stream, entry_counts(layout),
                  frozen_entries(layout)) {}
  // For parameters with so many elements each, one after another in the flat arrays. Those that are
  // frozen (none where the list is empty) have no gradient and do not change.
  Optimizer(OptimizerOptions options, Device& device, Stream& stream,
            std::vector<std::int64_t> counts, const std::vector<bool>& frozen = {});
  // Of one parameter with so many elements.
  Optimizer(OptimizerOptions options, Device& device, Stream& stream, std::int64_t count)
      : Optimizer(std::move(options), device, stream, std::vector{count}) {}

  // Overwrites `gradient` with the applied weight change of minibatch p. `weights` are those that
  // the gradient was taken at: weight decay is part of the gradient. `step`: of Adam, from 1,
  // counted since the training's start (WaveRules); numbers of minibatches do not say it. The
  // gradient is clipped first: by itself (stage), or by the factor that all stages have agreed on
  // (global, which cannot do without).
  void update(Minibatch p, std::int64_t step, Buffer& gradient, const float* weights,
              std::optional<float> clip_factor = std::nullopt);

  // For global clipping: squares of this gradient, per parameter; readable once the stream is done.
  std::span<const double> measure(Buffer& gradient);
  // The factor that follows from those of all stages.
  float clip_factor(std::span<const std::vector<double>> squares_of_stages) const {
    return clip_factor_of(squares_of_stages, options_.clipping.max_norm);
  }
  // Clips the sum of the weight changes of minibatches [first, last]; nothing where the scope is
  // another.
  void limit_wave(Minibatch first, Minibatch last, Buffer& sum);

  // Keeps what look_ahead needs besides the optimizer's state. Called before the first update.
  void prepare_to_look_ahead();
  // Weights `steps` updates ahead, predicted along the one applied last (SpecTrain: arXiv
  // 1809.02839; XPipe: arXiv 1911.04610): ahead = weights - steps * rate * direction, with the rate
  // of minibatch p and as direction the velocity or Adam's m^/(sqrt(v^) + epsilon); of plain SGD,
  // ahead = weights + steps * the last update. `updates`: so many have been applied, in this run
  // and before; before the first one, ahead = weights.
  void look_ahead(Minibatch p, int steps, std::int64_t updates, const float* weights, float* ahead);

  double learning_rate(Minibatch p) const;
  const std::vector<Buffer>& slots() const {
    return slots_;
  }  // in the order of optimizer_slot_names
  void load_slot(std::size_t slot, std::span<const float> values);

 private:
  struct Run {  // of the flat arrays
    std::int64_t first = 0, count = 0;
  };
  void drop_frozen(Buffer& gradient);
  void apply(const Run& run, Minibatch p, std::int64_t step, float* gradient, const float* weights);

  OptimizerOptions options_;
  Device& device_;
  Stream& stream_;
  std::int64_t count_;
  std::vector<Run> trained_, frozen_;
  std::vector<Buffer> slots_;
  bool looks_ahead_ = false;
  Buffer last_update_;  // plain SGD has no state of its own
  EntrySquares squares_;
};

}  // namespace hetpipe
