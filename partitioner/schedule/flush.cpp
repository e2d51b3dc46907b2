// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "base/huge_pages.h"
#include "partitioner/schedule/generate.h"

// Schedules that drain between minibatches: all forwards first (GPipe), or backwards as early as
// they can be (1F1B with flush, DAPPLE). Backwards stand in the order of their forwards, so that
// messages between two stages are first in, first out.
namespace hetpipe {
namespace {

// `warm_up` forwards of one minibatch, then one forward, one backward, then the backwards left.
void one_forward_one_backward(StageActions& actions, Minibatch minibatch, int micro_batches,
                              int warm_up) {
  int forward = 0;
  for (int backward = 0; backward < micro_batches; ++backward) {
    for (; forward < micro_batches && forward <= backward + warm_up; ++forward) {
      actions.push_back({ActionKind::forward, minibatch, forward, 0, 0});
    }
    actions.push_back({ActionKind::backward, minibatch, backward, 0, 0});
  }
}

// `warm_up(i)`: forwards of stage i before the pair F, B repeats.
template <class WarmUp>
Schedule flushed(const ScheduleRequest& request, const WarmUp& warm_up) {
  Schedule schedule(static_cast<std::size_t>(request.stages));
  const auto minibatches = static_cast<std::size_t>(request.end - request.first);
  for (int i = 0; i < request.stages; ++i) {
    reserve_huge(schedule[static_cast<std::size_t>(i)],
                 2 * minibatches * static_cast<std::size_t>(request.micro_batches));
    for (Minibatch p = request.first; p < request.end; ++p) {
      one_forward_one_backward(schedule[static_cast<std::size_t>(i)], p, request.micro_batches,
                               warm_up(i));
    }
  }
  return schedule;
}

int most_held(const ScheduleRequest& request) {
  return request.most_held.value_or(std::numeric_limits<int>::max());
}

}  // namespace

// GPipe: all forwards, then all backwards; every stage holds all micro-batches.
//   stage 0: F0   F0.1 F0.2 .    .    B0   B0.1 B0.2
//   stage 1: .    F0   F0.1 F0.2 B0   B0.1 B0.2 .
Schedule generators::gpipe(const ScheduleRequest& request) {
  return flushed(request, [&](int) { return request.micro_batches; });
}

// 1F1B with flush (PipeDream-Flush): stage i of S holds S - i micro-batches.
//   stage 0: F0   F0.1 .    B0   F0.2 B0.1 .    B0.2
//   stage 1: .    F0   B0   F0.1 B0.1 F0.2 B0.2 .
Schedule generators::flush_1f1b(const ScheduleRequest& request) {
  return flushed(request, [&](int i) { return request.stages - i - 1; });
}

// DAPPLE, policy A: K_i = min(S - i, D) warm-up forwards, then strictly one B, one F: stage i holds
// K_i micro-batches (arXiv 2007.01045, section on the DAPPLE schedule). Without a D it is 1F1B with
// flush.
//   D = 1, which serialises the stages
//   stage 0: F0   .    .    B0   F0.1 .    .    B0.1
//   stage 1: .    F0   B0   .    .    F0.1 B0.1 .
Schedule generators::dapple_pa(const ScheduleRequest& request) {
  return flushed(request,
                 [&](int i) { return std::min(request.stages - i, most_held(request)) - 1; });
}

// DAPPLE, policy B: K_i = min(2 (S - i) - 1, D), which hides communication about as long as the
// computation.
//   stage 0: F0   F0.1 F0.2 B0   F0.3 B0.1 .    B0.2 .    B0.3
//   stage 1: .    F0   B0   F0.1 B0.1 F0.2 B0.2 F0.3 B0.3 .
Schedule generators::dapple_pb(const ScheduleRequest& request) {
  return flushed(request, [&](int i) {
    return std::min(2 * (request.stages - i) - 1, most_held(request)) - 1;
  });
}

}  // namespace hetpipe
