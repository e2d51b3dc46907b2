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
  // wait.
  std::optional<Label> decide_gate(VirtualWorkerId vw, Wave wave) const;

  Wave clock(VirtualWorkerId vw) const;
  bool finished(VirtualWorkerId vw) const;
  Wave global_clock() const;  // end_label() when all have finished
  const WaveRules& rules() const { return rules_; }

 private:
  WaveRules rules_;
  std::vector<std::vector<Wave>> at_shard_;  // [worker][shard]: waves complete there
};

}  // namespace hetpipe
