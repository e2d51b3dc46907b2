// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "partitioner/schedule/schedule.h"

// From what is computed to what a stage does: messages, recomputation, updates, synchronisation.
namespace hetpipe {

struct Lowering {
  StageSync sync = StageSync::all_reduce;
  int in_flight = 1;  // waves: how many minibatches one has, times `round`
  Minibatch first = 0;
  Minibatch end = 1;  // one past the last minibatch
  // Of each virtual stage (chunk c of device i of p: c p + i) that keeps its inputs alone; empty:
  // none does.
  std::vector<bool> recompute{};
  int round = 1;
};

// Adds to a generated schedule
//   V before and S after F and B, where the model continues on another device; for chunks that is
//     from the last device to the first. The gradient leaves after B, before W. Where one B takes a
//     whole minibatch there is one gradient message, though each micro-batch has its own
//     activations.
//   R before the V of a B whose stage recomputes: it needs no gradient. One for each F.
//   after the last B (or W) of a minibatch at a stage, all chunks together,
//     all_reduce: P, which hands the gradients over, and U, which waits for their sum;
//     waves: U, and P after the U that ends a wave (and after the last one).
//   waves: L before the first F of the last minibatch of every wave but the first.
// U, P and L bear the minibatch alone. UserError where waves are shorter than what a stage holds:
// its gate would wait for what comes behind it.
Schedule lower(const Schedule& schedule, const Lowering& how);

}  // namespace hetpipe
