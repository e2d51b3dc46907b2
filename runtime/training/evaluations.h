// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "partitioner/schedule/due_labels.h"
#include "partitioner/schedule/periodic.h"
#include "runtime/training/job.h"

namespace hetpipe {

// Labels beyond `after` at which something is due every `every` waves.
DueLabels due_labels(const TrainJob& job, const WaveRules& rules, int every, Label after);

// The minibatch before whose F a virtual worker passes the gate that rests on the label.
Minibatch gate_minibatch(const WaveRules& rules, Label label);

// Where the test set is evaluated, if there is one: of the due labels those at which every virtual
// worker passes a gate that rests on them (without servers: has the update that completes them),
// and the last one.
class Evaluations {
 public:
  Evaluations(const TrainJob& job, const WaveRules& rules);  // rules: as planned

  std::optional<Label> first() const { return due_ ? next(due_->after) : std::nullopt; }
  std::optional<Label> next(Label label) const;  // beyond it
  // Behind which (waves: before which) minibatch a virtual worker evaluates a label, but for the
  // last one.
  Minibatch minibatch_of(Label label) const;
  // As actions (E) of a virtual worker; before the gate that rests on the label, the last one when
  // all has been done; without gates behind the update that completes it.
  ActionCursor::NextEvent events(VirtualWorkerId vw) const;
  EventPlace place() const {
    return waves_ ? EventPlace::before_minibatch : EventPlace::behind_update;
  }

 private:
  bool waves_;
  WaveRules rules_;
  std::optional<DueLabels> due_;
};

}  // namespace hetpipe
