// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "partitioner/schedule/generate.h"
#include "partitioner/schedule/lower.h"

// Schedules of runs of any length: what a stage does before it is in its steady state, what it then
// does again and again, and what it does at the end. Memory does not grow with the run.
namespace hetpipe {

// One stage's actions.
struct PeriodicActions {
  StageActions prologue;
  StageActions period;  // its first time
  StageActions epilogue;
  Minibatch step = 0;        // minibatches from one period to the next
  std::int64_t periods = 0;  // how often

  std::int64_t size() const;
  Action at(std::int64_t index) const;
  // Whether all actions from this one on are of minibatch p or later ones.
  bool begins_at(std::int64_t index, Minibatch p) const;
};
using PeriodicSchedule = std::vector<PeriodicActions>;  // [stage]

// Actions that do not repeat.
PeriodicActions without_period(StageActions actions);

// lower(generate(rule, request), how), action for action, at a cost that does not grow with
// request.end. A period is a wave, or without waves a minibatch. It is found in two schedules of a
// few minibatches whose lengths differ by it, and stands there at least three times in the shorter
// one: a stage does what a state machine does that sees only what is in flight.
PeriodicSchedule periodic_schedule(ScheduleRule rule, const ScheduleRequest& request,
                                   const Lowering& how);

// Where a stage does what is due at a label, as one action (E).
enum class EventPlace {
  before_minibatch,  // before everything else of the minibatch named
  behind_update,     // of the minibatch named
};

// Goes through a stage's actions, and through events that come between them.
class ActionCursor {
 public:
  // Called for the first event, and again when one has been passed: minibatches ascend.
  using NextEvent = std::function<std::optional<Action>()>;

  // `actions` outlives this.
  ActionCursor(const PeriodicActions& actions, EventPlace place, NextEvent next_event);

  std::optional<Action> next();
  // Whether all that is to come is of minibatch p or later ones.
  bool begins_at(Minibatch p) const;

 private:
  bool event_is_due() const;

  const PeriodicActions& actions_;
  EventPlace place_;
  NextEvent next_event_;
  std::optional<Action> event_;
  std::optional<Minibatch> updated_;  // newest
  std::int64_t index_ = 0;
};

}  // namespace hetpipe
