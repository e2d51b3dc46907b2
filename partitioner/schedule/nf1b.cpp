// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "base/error.h"
#include "partitioner/schedule/generate.h"

namespace hetpipe {
namespace {

// One stage while the rule is played.
struct Position {
  Minibatch forward = 0;   // of the next F
  int micro = 0;           // of the next F
  Minibatch backward = 0;  // of the next B
};

// One slot of stage s: the slots before it are done.
class Slot {
 public:
  Slot(const ScheduleRequest& request, const std::vector<Position>& before)
      : request_(request), before_(before) {}

  // B of the next minibatch has its gradient: from the stage below, or from its own forwards.
  bool backward_is_ready(std::size_t s) const {
    const Position& at = before_[s];
    if (at.backward == request_.end || at.forward == at.backward) return false;
    return s + 1 == before_.size() || before_[s + 1].backward > at.backward;
  }

  bool forward_is_ready(std::size_t s) const {
    const Position& at = before_[s];
    if (at.forward == request_.end) return false;
    const auto most = static_cast<Minibatch>(before_.size() - s);
    if (at.micro == 0 && at.forward - at.backward >= most) return false;
    if (s == 0) return true;
    const Position& above = before_[s - 1];
    return above.forward > at.forward || (above.forward == at.forward && above.micro > at.micro);
  }

 private:
  const ScheduleRequest& request_;
  const std::vector<Position>& before_;
};

}  // namespace

// nF1B (TiMePReSt, arXiv 2410.14312): N forwards, one per micro-batch, and one backward of the
// whole minibatch, which goes first as soon as it is ready. A new minibatch waits while stage s of
// W holds W - s. Played slot by slot, F and B taking one slot each.
//   3 stages, 2 micro-batches, 4 minibatches
//   stage 0: F0   F0.1 F1   F1.1 F2   F2.1 B0   F3   F3.1 B1   .    .    B2   .    .    B3
//   stage 1: .    F0   F0.1 F1   F1.1 B0   F2   F2.1 B1   F3   F3.1 B2   .    .    B3   .
//   stage 2: .    .    F0   F0.1 B0   F1   F1.1 B1   F2   F2.1 B2   F3   F3.1 B3   .    .
Schedule generators::nf1b(const ScheduleRequest& request) {
  const auto stages = static_cast<std::size_t>(request.stages);
  Schedule schedule(stages);
  std::vector<Position> now(stages, Position{request.first, 0, request.first});
  while (now[0].backward < request.end) {
    const std::vector<Position> before = now;
    const Slot slot(request, before);
    bool worked = false;
    for (std::size_t s = 0; s < stages; ++s) {
      Position& at = now[s];
      if (slot.backward_is_ready(s)) {
        schedule[s].push_back({ActionKind::backward, at.backward++});
      } else if (slot.forward_is_ready(s)) {
        schedule[s].push_back({ActionKind::forward, at.forward, at.micro, 0, 0});
        if (++at.micro == request.micro_batches) {
          at.micro = 0;
          ++at.forward;
        }
      } else {
        continue;
      }
      worked = true;
    }
    ensure(worked, "nF1B makes no progress");
  }
  return schedule;
}

int generators::overlap_of_nf1b(const ScheduleRequest& request) { return request.stages; }

// There and back, a minibatch needs 2 stages + micro-batches slots, and one comes every
// micro-batches + 1.
int generators::under_way_in_nf1b(const ScheduleRequest& request) {
  return 1 + (2 * request.stages + request.micro_batches) / (request.micro_batches + 1);
}

}  // namespace hetpipe
