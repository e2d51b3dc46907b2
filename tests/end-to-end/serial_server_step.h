// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "tests/end-to-end/serial_optimizer.h"

namespace hetpipe {

// The optimizer of sync = "server-step", written from docs/server-step.md and apart from the
// runtime. A virtual worker's change of minibatch p is -(r(p) g), r the rate of the stages. With d,
// the mean over the virtual workers of their changes of minibatches [first, end):
//   g = d * float(-1 / (r(first) + ... + r(end - 1)))
//   u = the optimizer's change with g, at its rate of minibatch end - 1
//   weights = (before + u) + ahead * (u - the u before)
struct SerialServerStep {
  SerialServerStep(SerialOptimizer optimizer, SerialOptimizer the_stages, double the_ahead,
                   const ParameterLayout& layout, std::vector<Floats> slots = {})
      : stages(std::move(the_stages)),
        ahead(static_cast<float>(the_ahead)),
        steps(std::move(optimizer), layout, std::move(slots)),
        newest(static_cast<std::size_t>(layout.count())) {}

  SerialOptimizer stages;
  float ahead;
  SerialSteps steps;
  Floats newest;

  // `changes`: d; then the weights. `number` of this step, from 1.
  void step(const Floats& before, Floats& changes, Minibatch first, Minibatch end,
            std::int64_t number) {
    double rates = 0;
    for (Minibatch p = first; p < end; ++p) rates += stages.rate_at(p);
    const auto by = static_cast<float>(-1 / rates);
    for (float& value : changes) value *= by;
    const Floats change = steps.delta(changes, before, number, end - 1);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const float further = ahead * (change[i] - newest[i]);
      changes[i] = (before[i] + change[i]) + further;
    }
    newest = change;
  }
};

}  // namespace hetpipe
