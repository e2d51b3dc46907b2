// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "partitioner/schedule/wave_rules.h"

namespace hetpipe {

// Asynchronous training (WaveRules::by_arrival) at one shard: which push it adds next, the same at
// all of them, and which snapshots will still be pulled. A pure state machine, as WaveClock, which
// decides the order.
class PushOrder {
 public:
  struct Push {
    VirtualWorkerId virtual_worker;
    Wave wave = 0;
  };

  // pulls: from this shard at each gate of a virtual worker. `rules` outlives this.
  PushOrder(const WaveRules& rules, std::vector<int> pulls);

  // In their order: a virtual worker comes to the gate of `wave`, which grants `label`.
  void gate_passed(VirtualWorkerId vw, Wave wave, Label label);
  // Stays the same until it is added; nothing as long as it is not decided, and at the end.
  std::optional<Push> next() const;
  void added();
  // Somebody has pulled it.
  void pulled(Label label);

  // No older one is pulled than those that were granted, or that will be.
  std::optional<Label> oldest_to_pull() const;
  // All waves below it have been added, of those who have them.
  Label complete() const;

 private:
  const WaveRules& rules_;
  std::vector<int> pulls_;
  std::deque<Push> gated_;        // to be added
  Wave gates_ = 0;                // passed so far
  std::vector<Wave> added_;       // [virtual worker] waves below it
  std::map<Label, int> to_pull_;  // how many times
};

}  // namespace hetpipe
