// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

// A schedule is a value: for each stage of a virtual worker, its actions in the order in which the
// stage does them. generate -> lower (adds sends and receives) -> validate -> simulate or run.
//
// Text form: kind, then minibatch[.micro][/chunk][@replica], all counted from 0; "F3.1" is the
// forward of minibatch 3, micro-batch 1. Parts that are 0 are left out.
namespace hetpipe {

enum class ActionKind : char {
  forward = 'F',
  backward = 'B',
  weight_gradient = 'W',
  recompute = 'R',
  send = 'S',     // after F: activations to later stages; after B: gradients to earlier ones
  receive = 'V',  // before F: activations; before B: gradients
  update = 'U',   // optimizer step with the minibatch's gradient
  push = 'P',     // of the wave whose last minibatch is named
  pull = 'L',  // before the F of the minibatch named: wait at the gate, take the label's snapshot
  evaluate = 'E',  // of the snapshot pulled at the gate of the minibatch named
  checkpoint = 'C',
};

// What a send or receive carries. The text form does not say it: a send after the B of its
// minibatch carries gradients, and so does a receive after the F.
enum class Payload : char { activations, gradients };

struct Action {
  ActionKind kind = ActionKind::forward;
  Minibatch minibatch = 0;
  int micro = 0;
  int chunk = 0;
  int replica = 0;
  Payload payload = Payload::activations;  // of S and V
  bool operator==(const Action&) const = default;
};

std::string to_string(const Action& action);
std::optional<Action> try_parse_action(std::string_view text);

using StageActions = std::vector<Action>;
using Schedule = std::vector<StageActions>;  // [stage]

std::string to_string(const StageActions& actions);  // "F0 F1 B0"
StageActions parse_actions(std::string_view text);   // UserError on a bad word

// Continuous 1F1B: how many minibatches stage k of `stages` holds between their F and their B when
// the virtual worker keeps `in_flight` (Nm) in flight: front stages hold more, the last one 1. One
// rule for ledger, generator and executor.
int minibatches_held(int in_flight, int stages, StageId stage);

// Continuous 1F1B of minibatches first ... end-1: stage k fills what it may hold, then alternates,
// then drains.
//   3 stages, Nm = 3, 4 minibatches
//   stage 0: F0 F1 F2 B0 F3 B1 B2 B3
//   stage 1: F0 F1 B0 F2 B1 F3 B2 B3
//   stage 2: F0 B0 F1 B1 F2 B2 F3 B3
Schedule continuous_1f1b(int stages, int in_flight, Minibatch first, Minibatch end);

// What one B is.
enum class BackwardForm {
  whole,         // of a micro-batch: both gradients
  split,         // of a micro-batch: its input's gradient; a W follows
  by_minibatch,  // of all micro-batches of its minibatch at once (nF1B)
};

// How a stage's weights are synchronised with its replicas and other virtual workers.
enum class StageSync {
  all_reduce,  // P hands a minibatch's gradients over, U waits for their sum
  waves,       // U with the own gradients, P pushes a wave's updates, L pulls (WSP, ASP)
};

// What a schedule is to be checked against.
struct ScheduleForm {
  int in_flight = 1;  // minibatches between F and B at one stage, at most; the length of a wave
  BackwardForm backward = BackwardForm::whole;
  StageSync sync = StageSync::waves;
  int round = 1;  // a wave is so many times longer
};

// Every F before its B (and that before its W), each once, at every stage; U after the last of
// them; S/V matched between neighbours in the same order; no deadlock; at most in_flight
// minibatches between F and B. On a fault: the whole table with a mark at the wrong cell
// (UserError).
void validate(const Schedule& schedule, const ScheduleForm& form);
void validate(const Schedule& schedule, int in_flight);

}  // namespace hetpipe
