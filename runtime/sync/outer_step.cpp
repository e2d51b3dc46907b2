// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/outer_step.h"

#include <algorithm>

namespace hetpipe {
namespace {

constexpr std::size_t kBetween = std::size_t{4} << 20;  // floats between two calls of between()

}  // namespace

void step_towards(const OuterStep& step, std::span<const float> before, std::span<float> weights,
                  std::span<float> momentum) {
  for (std::size_t e = 0; e < weights.size(); ++e) {
    const float change = weights[e] - before[e];
    momentum[e] = step.momentum * momentum[e] + change;
    weights[e] = before[e] + step.rate * (change + step.momentum * momentum[e]);
  }
}

void OuterSteps::make(Wave /*wave*/, std::span<const float> before, std::span<float> next,
                      State& state, const std::function<void()>& between) {
  const std::span momentum(state.front());
  for (std::size_t first = 0; first < next.size(); first += kBetween) {
    const std::size_t some = std::min(next.size() - first, kBetween);
    step_towards(step_, before.subspan(first, some), next.subspan(first, some),
                 momentum.subspan(first, some));
    between();
  }
}

}  // namespace hetpipe
