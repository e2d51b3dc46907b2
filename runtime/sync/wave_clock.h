// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "base/ids.h"
#include "partitioner/schedule/wave_rules.h"

namespace hetpipe {

// Who may start the last minibatch of a wave, and with which label. A pure state machine: arrivals
// in, decisions out; no time, no messages. Lives on the first server rank.
//
//   wave w of virtual worker i counts when every shard has all stages' parts of it
//   clock(i) = waves that count; global_clock = the smallest of those not finished
//   gate of wave w opens when global_clock >= w - D
//
// By arrival it opens when the virtual worker's own waves below w count, and grants the next label.
class WaveClock {
 public:
  WaveClock(WaveRules rules, int shards);

  // Shard s holds every stage's part of wave w of virtual worker i. Waves of one worker reach a
  // shard in order.
  void arrived(ShardId shard, VirtualWorkerId vw, Wave wave);

  // No stage has a part of any wave for this shard.
  void leave_out(ShardId shard);

  // The run ends before this minibatch, which no rank has passed.
  void stop_before(Minibatch p) { rules_.stop_before(p); }

  // May virtual worker i start the last minibatch of `wave`? The label that it gets, or nothing:
  // wait. Once it has one it has passed the gate.
  std::optional<Label> decide_gate(VirtualWorkerId vw, Wave wave);

  Wave clock(VirtualWorkerId vw) const;
  bool finished(VirtualWorkerId vw) const;
  Wave global_clock() const;  // end_label() when all have finished
  const WaveRules& rules() const { return rules_; }

 private:
  bool is_next(VirtualWorkerId vw, Wave wave) const;

  WaveRules rules_;
  std::vector<std::vector<Wave>> at_shard_;  // [worker][shard]: waves complete there
  std::vector<Wave> passed_;                 // [worker]: by arrival, the last gate passed
  Label granted_ = 0;                        // by arrival, the newest label
};

}  // namespace hetpipe
