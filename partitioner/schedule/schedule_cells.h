// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <set>
#include <string>
#include <tuple>

#include "partitioner/schedule/schedule.h"

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

// Where the model goes on: virtual stage c p + i is chunk c on device i of p.
struct VirtualStages {
  int devices = 1;
  int chunks = 1;
  explicit VirtualStages(const Schedule& schedule);
  bool has_next(int device, int chunk) const {
    return chunk * devices + device + 1 < devices * chunks;
  }
  bool has_previous(int device, int chunk) const { return chunk * devices + device > 0; }
};

// The action that an F (by = -1) or B (by = 1), or the S that a V waits for, needs from the virtual
// stage before or after it.
struct Needed {
  std::size_t device;
  Action action;
};
Needed neighbour(const VirtualStages& stages, std::size_t device, Action action, int by);

// Plays the schedule without times: whoever can go on does; if nobody can, it is a deadlock.
void check_it_plays(const Schedule& schedule, const ScheduleForm& form);

}  // namespace hetpipe
