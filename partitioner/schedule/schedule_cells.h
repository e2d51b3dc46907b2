// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <set>
#include <string>
#include <tuple>

#include "partitioner/schedule/schedule.h"
#include "partitioner/schedule/virtual_stages.h"

// What the parts of validate() share.
namespace hetpipe {

struct Cell {
  std::size_t stage;
  std::size_t index;
  auto operator<=>(const Cell&) const = default;
};

using ActionKey = std::tuple<Minibatch, int, int, int>;  // an action without its kind
inline ActionKey key_of(const Action& a) { return {a.minibatch, a.micro, a.chunk, a.replica}; }

// Throws UserError: the first of `cells`, what is wrong there, the whole table with these marked.
[[noreturn]] void fault_at(const Schedule& schedule, const std::set<Cell>& cells,
                           const std::string& what);

// What a schedule has beside F, B and W, and what all its stages must agree on.
struct ScheduleParts {
  bool messages = false;  // S, V
  bool weights = false;   // U, P, L
  int micro_batches = 1;  // forwards of each minibatch in each chunk
};

void check_stage(const Schedule& schedule, std::size_t stage, const ScheduleForm& form,
                 const ScheduleParts& parts);

// Runs the schedule without times: a stage that can continue does; if none can, it is a deadlock.
void check_it_plays(const Schedule& schedule, const ScheduleForm& form);

}  // namespace hetpipe
