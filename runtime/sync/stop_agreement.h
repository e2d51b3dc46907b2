// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "partitioner/schedule/wave_rules.h"

namespace hetpipe {

// Where a run that was asked to stop ends: at a label that every rank can still keep to. A pure
// state machine beside the WaveClock; no time, no messages.
//
// A virtual worker that has passed the gate of wave g may be anywhere in the waves up to g + 1, but
// not at the last minibatch of that wave: its gate stands before it. So all can still end with wave
// g + 1, where g is the furthest gate passed by any, if the gates of that wave stay shut until
// every rank knows.
class StopAgreement {
 public:
  StopAgreement(const WaveRules& rules, int ranks);

  void gate_passed(Wave wave);  // by any virtual worker
  // The label to stop at, for all ranks to hear; nothing when it was decided before, or when the
  // run ends by then anyway.
  std::optional<Label> decide();
  void knows(Rank rank);
  // Whether the gate of this wave has to wait for ranks that do not know yet.
  bool shut(Wave wave) const;

 private:
  const WaveRules& rules_;
  Wave furthest_;
  std::optional<Label> label_;
  std::vector<bool> known_;  // by rank
};

}  // namespace hetpipe
