// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "kernels/buffer.h"
#include "runtime/pipeline/learning_rate.h"

namespace hetpipe {

struct OptimizerOptions {
  std::string name = "sgd-momentum";  // sgd, sgd-momentum, adam
  double learning_rate = 0.01;
  double momentum = 0.9;
  double weight_decay = 0;
  RateSchedule schedule{};  // of the learning rate
};

// Names of an optimizer's state, as checkpoints store it: {} for sgd, {"velocity"},
// {"first_moment", "second_moment"}. UserError for an unknown optimizer.
std::vector<std::string> optimizer_slot_names(const std::string& optimizer);

// The optimizer of one stage of one virtual worker; its state is local to both. It yields the
// applied weight change and leaves adding it to whoever keeps the weights.
class Optimizer {
 public:
  Optimizer(OptimizerOptions options, Device& device, Stream& stream, std::int64_t count);

  // Overwrites `gradient` with the applied weight change of minibatch p. `weights` are those that
  // the gradient was taken at: weight decay is part of the gradient. Minibatch numbers are
  // absolute, so Adam's step is p + 1.
  void update(Minibatch p, Buffer& gradient, const float* weights);

  double learning_rate(Minibatch p) const;
  const std::vector<Buffer>& slots() const {
    return slots_;
  }  // in the order of optimizer_slot_names
  void load_slot(std::size_t slot, std::span<const float> values);

 private:
  OptimizerOptions options_;
  Device& device_;
  Stream& stream_;
  std::int64_t count_;
  std::vector<Buffer> slots_;
};

}  // namespace hetpipe
