// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <span>

#include "runtime/sync/label_step.h"

namespace hetpipe {

// The servers' own step after a round (DiLoCo, Douillard et al., arXiv 2311.08105, algorithm 1):
// Nesterov's momentum over the mean of the virtual workers' changes (docs/outer.md).
struct OuterStep {
  float rate = 1;
  float momentum = 0;
};

// `weights`: what they would be with the sum of the changes alone; then, in float, with
//   change = weights - before
//   momentum = step.momentum momentum + change
// the weights after the step:
//   before + step.rate (change + step.momentum momentum)
// All of one size.
void step_towards(const OuterStep& step, std::span<const float> before, std::span<float> weights,
                  std::span<float> momentum);

// The same as the servers' part; its state is the momentum.
class OuterSteps final : public LabelStep {
 public:
  explicit OuterSteps(OuterStep step) : step_(step) {}
  bool takes_changes() const override { return false; }
  void make(Wave wave, std::span<const float> before, std::span<float> next, State& state,
            const std::function<void()>& between) override;

 private:
  OuterStep step_;
};

}  // namespace hetpipe
