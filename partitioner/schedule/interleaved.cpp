// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "partitioner/schedule/generate.h"

namespace hetpipe {

// Interleaved 1F1B (Narayanan et al., arXiv 2104.04473): device i of p owns chunks c of the model,
// the layers of virtual stage c p + i. It goes through p micro-batches of chunk 0, the same p of
// chunk 1, ... (backwards from the last chunk down), so that micro-batches come in multiples of p.
// Warm-up of device i: 2 (p - i - 1) + (chunks - 1) p forwards, then one F, one B. The bubble is
// (p - 1) / chunks forwards and backwards of a device's whole share.
//   2 devices, 2 chunks, 4 micro-batches
//   stage 0: F0     F0.1   F0/1   F0.1/1 F0.2   B0/1   F0.3   B0.1/1 F0.2/1 B0     F0.3/1 B0.1 ...
//   stage 1: .      F0     F0.1   F0/1   B0/1   F0.1/1 B0.1/1 F0.2   B0     F0.3   B0.1   F0.2/1
//   ...
Schedule generators::interleaved_1f1b(const ScheduleRequest& request) {
  const int p = request.stages;
  const int chunks = request.chunks;
  const int total = request.micro_batches * chunks;
  const auto nth = [&](ActionKind kind, Minibatch minibatch, int n) {
    const int group = n / (p * chunks);  // of p micro-batches through all chunks
    const int chunk = n % (p * chunks) / p;
    return Action{kind, minibatch, group * p + n % p,
                  kind == ActionKind::forward ? chunk : chunks - 1 - chunk, 0};
  };
  Schedule schedule(static_cast<std::size_t>(p));
  for (int i = 0; i < p; ++i) {
    StageActions& actions = schedule[static_cast<std::size_t>(i)];
    // With one chunk nothing interleaves, and the longer warm-up would only hold more.
    const int warm_up = chunks == 1 ? p - i - 1 : 2 * (p - i - 1) + (chunks - 1) * p;
    for (Minibatch minibatch = request.first; minibatch < request.end; ++minibatch) {
      int forward = 0;
      for (int backward = 0; backward < total; ++backward) {
        for (; forward < total && forward <= backward + warm_up; ++forward) {
          actions.push_back(nth(ActionKind::forward, minibatch, forward));
        }
        actions.push_back(nth(ActionKind::backward, minibatch, backward));
      }
    }
  }
  return schedule;
}

}  // namespace hetpipe
