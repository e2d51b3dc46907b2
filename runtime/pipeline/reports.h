// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"
#include "kernels/memory_account.h"
#include "partitioner/schedule/schedule.h"

// A worker's reports, as plain structs: they travel as bytes between ranks of one build.
namespace hetpipe {

// Seconds of waiting over the whole run so far, as RankReport has them.
struct WaitsSoFar {
  double bubble = 0;
  double transfer = 0;
  double server = 0;
  double data = 0;
};

// One worker rank, one wave: made when the wave is pushed (all-reduce: when its last update has
// been made).
struct WaveReport {
  std::int32_t virtual_worker = 0;
  std::int32_t stage = 0;
  std::int32_t replica = 0;
  Wave wave = 0;
  Minibatch last_minibatch = 0;
  std::int64_t samples = 0;  // the rest of this block: last stage only
  std::int64_t labels = 0;   // of them: one each, or one for every token
  std::int64_t correct = 0;
  double loss_sum = 0;
  double learning_rate = 0;
  Minibatch staleness_min = 0;  // over the wave's minibatches
  Minibatch staleness_max = 0;
  double elapsed_seconds = 0;    // since the previous report, without evaluations
  double evaluated_seconds = 0;  // of evaluations, over the whole run
  double server_wait_seconds = 0;
  // Of its passes: samples (each once forward, once backward), and seconds on the device without
  // those that other programs had the processor.
  std::int64_t computed_samples = 0;
  double compute_seconds = 0;
  WaitsSoFar waits{};
  std::int64_t peak_memory = 0;  // bytes, of the run so far
};

struct EvaluationReport {
  std::int32_t virtual_worker = 0;
  std::int32_t replica = 0;
  Label label = 0;
  std::int64_t samples = 0;
  std::int64_t labels = 0;
  std::int64_t correct = 0;
  double loss_sum = 0;
};

// Where one worker rank's time went, over the whole run.
struct RankReport {
  std::int32_t virtual_worker = 0;
  std::int32_t stage = 0;
  std::int32_t replica = 0;
  std::int64_t minibatches = 0;
  double total_seconds = 0;
  double forward_seconds = 0;  // on the device: real, or modelled where it is emulated
  double backward_seconds = 0;
  double update_seconds = 0;
  double transfer_seconds = 0;     // waiting while the awaited message was in transit
  double bubble_seconds = 0;       // waiting before it was sent
  double server_wait_seconds = 0;  // gates and pulls
  double evaluate_seconds = 0;     // all of it, separate from the rest
  double data_seconds = 0;         // waiting for samples
  // The host is ahead of the device: where that had nothing to do although the host waited for
  // nothing. The waits above are then those for which the device stood still.
  double unfed_seconds = 0;
  std::int64_t paced_actions = 0;
  std::int64_t overruns = 0;
  double overrun_seconds = 0;
  double late_seconds = 0;       // modelled ends missed, for whatever reason
  std::int64_t peak_memory = 0;  // bytes
  std::array<std::int64_t, kMemoryKinds> peak_of_kind{};
  std::int64_t predictions = 0;  // of weights, for a pass or for all passes of a minibatch
  std::int64_t messages_forward = 0;
  std::int64_t messages_backward = 0;
  std::int64_t bytes_forward = 0;
  std::int64_t bytes_backward = 0;
  std::int64_t bytes_pushed = 0;
  std::int64_t bytes_pulled = 0;
  std::int64_t bytes_evaluation = 0;  // activations of test samples
  // The most in messages that had not left when the next one of their direction was made: memory
  // beyond the ledger.
  std::int64_t bytes_queued = 0;
  std::int64_t pushes = 0;
  std::int64_t pulls = 0;
  int servers_in_reach = 0;          // whose pushes and pulls are read where they lie
  std::int64_t messages_summed = 0;  // gradients on their way to and from sums with other ranks
  std::int64_t bytes_summed = 0;
};

// One action as it happened.
struct ActionRecord {
  std::int64_t start_ns = 0;
  std::int64_t end_ns = 0;
  ActionKind kind = ActionKind::forward;
  Minibatch minibatch = 0;
  int micro = 0;
  Label label = 0;         // version: the snapshot that the weights rest on ...
  Minibatch visible = 0;   // ... and own updates in them, 0 ... visible-1
  std::int64_t bytes = 0;  // sent or received
  int chunk = 0;
  Payload payload = Payload::activations;  // of S and V
};

}  // namespace hetpipe
