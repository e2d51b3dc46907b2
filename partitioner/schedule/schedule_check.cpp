// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/text.h"
#include "partitioner/schedule/schedule_cells.h"

// validate(): what each stage holds to by itself (stage_check.cpp), what the messages of two stages
// hold to, and whether all stages can continue (schedule_play.cpp).
namespace hetpipe {
namespace {

std::vector<Cell> messages(const Schedule& schedule, std::size_t k, ActionKind kind,
                           Payload payload) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < schedule[k].size(); ++i) {
    const Action& action = schedule[k][i];
    if (action.kind == kind && action.payload == payload) cells.push_back({k, i});
  }
  return cells;
}

// What stage `from` sends and stage `to` receives; `by` is where the virtual stage of the sender is
// as the receiver sees it.
void check_same_order(const Schedule& schedule, std::size_t from, std::size_t to, Payload payload) {
  const VirtualStages stages(schedule);
  const int by = payload == Payload::activations ? -1 : 1;
  const auto sends = messages(schedule, from, ActionKind::send, payload);
  const auto receives = messages(schedule, to, ActionKind::receive, payload);
  for (std::size_t i = 0; i < receives.size(); ++i) {
    if (i >= sends.size()) fault_at(schedule, {receives[i]}, "its message is never sent");
    const Action& receive = schedule[to][receives[i].index];
    const Action& send = schedule[from][sends[i].index];
    if (key_of(neighbour(stages, to, receive, by).action) == key_of(send)) continue;
    fault_at(schedule, {receives[i]},
             format("stage %zu sends %s at this point (messages between two stages are received "
                    "in the order in which they are sent)",
                    from, to_string(send).c_str()));
  }
  if (sends.size() > receives.size()) {
    fault_at(schedule, {sends[receives.size()]}, "its message is never received");
  }
}

ScheduleParts parts_of(const Schedule& schedule) {
  ScheduleParts parts;
  for (const StageActions& actions : schedule) {
    for (const Action& action : actions) {
      const auto is = [&](auto... kinds) { return ((action.kind == kinds) || ...); };
      if (is(ActionKind::send, ActionKind::receive)) parts.messages = true;
      if (is(ActionKind::update, ActionKind::push, ActionKind::pull)) parts.weights = true;
      if (is(ActionKind::forward)) {
        parts.micro_batches = std::max(parts.micro_batches, action.micro + 1);
      }
    }
  }
  return parts;
}

}  // namespace

void validate(const Schedule& schedule, const ScheduleForm& form) {
  const ScheduleParts parts = parts_of(schedule);
  for (std::size_t k = 0; k < schedule.size(); ++k) check_stage(schedule, k, form, parts);
  for (std::size_t k = 0; parts.messages && k < schedule.size(); ++k) {
    const std::size_t next = (k + 1) % schedule.size();
    check_same_order(schedule, k, next, Payload::activations);
    check_same_order(schedule, next, k, Payload::gradients);
  }
  check_it_plays(schedule, form);
}

void validate(const Schedule& schedule, int in_flight) {
  validate(schedule, ScheduleForm{in_flight, BackwardForm::whole, StageSync::waves});
}

}  // namespace hetpipe
