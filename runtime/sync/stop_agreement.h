// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "partitioner/schedule/wave_rules.h"

namespace hetpipe {

// Where a run that was asked to stop ends: at a label that every rank can still stop at. A pure
// state machine next to the WaveClock; no time, no messages.
//
// A virtual worker that has passed the gate of wave g may be anywhere in the waves up to g + 1, but
// not at the last minibatch of that wave: its gate is before it. So all can still end with wave
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
  bool all_know() const;
  // Whether the gate of this wave has to wait for ranks that do not know yet.
  bool shut(Wave wave) const;

 private:
  const WaveRules& rules_;
  Wave furthest_;
  std::optional<Label> label_;
  std::vector<bool> known_;  // by rank
};

// The same inside of a wave, where its end would come too late. The ranks of all first stages say
// which minibatch they come to next, and wait there. With F the furthest of these, no rank has
// begun minibatch F, nor does one wait for F + 1, whose activations come after those of F. So all
// can still end before F + 1, if those that wait go on when every rank knows.
class StopInside {
 public:
  StopInside(const WaveRules& rules, int asked) : rules_(rules), awaited_(asked) {}

  void comes_to(Minibatch next);  // one of those asked
  bool all_are_known() const { return awaited_ == 0; }
  // The minibatch to stop before; nothing where the label's own end is not behind it, or where a
  // virtual worker's run ends by then anyway.
  std::optional<Minibatch> decide(Label label) const;

 private:
  const WaveRules& rules_;
  int awaited_;
  Minibatch furthest_ = 0;
};

// How far apart the ranks of a run without gates can be.
struct RunAhead {
  int held = 1;          // minibatches begun and not ended at a stage, the most of any (count_held)
  int between_sums = 1;  // minibatches from one sum over virtual workers to the next
};

// The same without gates, where updates sum gradients over all virtual workers (all-reduce).
// Decided by the first virtual worker's first stage (replica 0), the coordinator, when it is about
// to begin F(p), which it does not do until every rank knows. With H = held and G = between_sums,
// no rank has begun any minibatch from p + G - 1 + 2 H on, because without the coordinator's
// samples of p
//   * no stage with parameters gets past the first sum of minibatch p or later, at the latest that
//     of p + G - 1: it needs this stage of the first virtual worker, all its replicas, and one of
//     them needs those samples;
//   * so such a stage has begun minibatches below p + G - 1 + H, and so have, behind it, those
//     without parameters of its virtual worker, whose F need its F;
//   * and those before it have ended, with its B, minibatches below p + G - 1 + H, and so begun
//     ones below p + G - 1 + 2 H.
// (Where the coordinator has no sample of p, p is the run's last minibatch.) A receive may be
// posted for one more. So all can still end before the first wave that begins behind that.
class StopAtForward {
 public:
  StopAtForward(const WaveRules& rules, RunAhead ahead, int ranks);

  // The label to stop at; nothing when it was decided before, or when the run ends by then anyway.
  std::optional<Label> decide(Minibatch p);
  void knows(Rank rank);
  bool all_know() const;

 private:
  const WaveRules& rules_;
  RunAhead ahead_;
  bool decided_ = false;
  std::vector<bool> known_;  // by rank
};

}  // namespace hetpipe
