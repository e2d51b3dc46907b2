// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/outer_step.h"

namespace hetpipe {

void step_towards(const OuterStep& step, std::span<const float> before, std::span<float> weights,
                  std::span<float> momentum) {
  for (std::size_t e = 0; e < weights.size(); ++e) {
    const float change = weights[e] - before[e];
    momentum[e] = step.momentum * momentum[e] + change;
    weights[e] = before[e] + step.rate * (change + step.momentum * momentum[e]);
  }
}

}  // namespace hetpipe
