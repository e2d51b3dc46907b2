// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "partitioner/schedule/schedule.h"

// A schedule run on equal stages, every action as early as the order of its stage and what it
// needs from its neighbours allow. It is what drawings and counts look at; links, devices and
// everything unequal are the simulator's.
namespace hetpipe {

// How long each kind takes, in slots. The default, one slot each, is the rule under which the
// counts of the papers come out (counts.h).
struct SlotLengths {
  double forward = 1;
  double backward = 1;  // B alone where W is apart
  double weight_gradient = 1;
  double recompute = 1;
  double message = 0;  // from the end of an action until a neighbour can use its result
};

struct Timetable {
  std::vector<std::vector<double>> start;  // [stage][index in its actions]; what was never reached
  std::vector<std::vector<double>> end;    // is not there. Actions that are no computation take 0
  double length = 0;                       // until the last end
};

// F needs the F before it in the model, B the B after it: the neighbour's, or, from the last device
// to the first, that of the chunk beside it. B at the very end of the model needs its F, which the
// order of its stage gives. A schedule that stands still gives a table that is cut short there.
Timetable play_in_slots(const Schedule& schedule, const SlotLengths& lengths = {});

// The table of a schedule: a row per stage, a column per slot, '.' for idle; sends, receives and
// what else is no computation are left out.
//   stage 0: F0   F0.1 .    B0   B0.1
//   stage 1: .    F0   B0   F0.1 B0.1
std::string draw(const Schedule& schedule);

}  // namespace hetpipe
