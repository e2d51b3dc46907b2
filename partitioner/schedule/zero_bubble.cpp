// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/huge_pages.h"
#include "partitioner/schedule/generate.h"

// Zero bubble (Qi et al., arXiv 2401.10241): a backward is two actions, B (the input's gradient,
// which the stage before waits for) and W (the weights', which nobody waits for, so that it fills
// what would be a bubble). Flushed between minibatches: the update waits for the last W.
namespace hetpipe {
namespace {

// `warm_up` forwards, then F, B, and a W once more than `late` of them wait; at the end B and W
// alternate, then the W that are left.
void split_backward(StageActions& actions, Minibatch minibatch, int micro_batches, int warm_up,
                    int late) {
  int forward = 0;
  int weight = 0;
  const auto add = [&](ActionKind kind, int micro) {
    actions.push_back({kind, minibatch, micro, 0, 0});
  };
  for (; forward < std::min(warm_up, micro_batches); ++forward) add(ActionKind::forward, forward);
  for (int backward = 0; backward < micro_batches; ++backward) {
    const bool cool_down = forward == micro_batches;
    if (!cool_down) add(ActionKind::forward, forward++);
    add(ActionKind::backward, backward);
    if (cool_down || backward + 1 - weight > late) add(ActionKind::weight_gradient, weight++);
  }
  while (weight < micro_batches) add(ActionKind::weight_gradient, weight++);
}

// `per_stage` forwards of warm-up for every stage below, and as many W late for every one above.
Schedule split_backwards(const ScheduleRequest& request, int per_stage) {
  Schedule schedule(static_cast<std::size_t>(request.stages));
  const auto minibatches = static_cast<std::size_t>(request.end - request.first);
  for (int s = 0; s < request.stages; ++s) {
    reserve_huge(schedule[static_cast<std::size_t>(s)],
                 3 * minibatches * static_cast<std::size_t>(request.micro_batches));
    for (Minibatch p = request.first; p < request.end; ++p) {
      split_backward(schedule[static_cast<std::size_t>(s)], p, request.micro_batches,
                     per_stage * (request.stages - s - 1), per_stage * s);
    }
  }
  return schedule;
}

}  // namespace

// ZB-H1: stage s of p warms up with p - s - 1 forwards and is late by s weight gradients, so that
// every stage holds at most the p micro-batches that 1F1B holds at its first.
//   stage 0: F0   F0.1 F0.2 .    .    B0   W0   F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3
//   stage 1: .    F0   F0.1 .    B0   F0.2 B0.1 W0   F0.3 B0.2 W0.1 B0.3 W0.2 W0.3
//   stage 2: .    .    F0   B0   F0.1 B0.1 F0.2 B0.2 W0   F0.3 B0.3 W0.1 W0.2 W0.3
Schedule generators::zb_h1(const ScheduleRequest& request) { return split_backwards(request, 1); }

// ZB-H2: twice as many of both; every stage holds up to 2 p - 1 micro-batches, and the bubble that
// is left is (p - 1) (F + B - 2 W), none where the three take equally long.
//   stage 0: F0   F0.1 F0.2 B0   W0   F0.3 B0.1 W0.1 B0.2 W0.2 B0.3 W0.3 .
//   stage 1: .    F0   B0   F0.1 B0.1 F0.2 B0.2 W0   F0.3 B0.3 W0.1 W0.2 W0.3
Schedule generators::zb_h2(const ScheduleRequest& request) { return split_backwards(request, 2); }

}  // namespace hetpipe
