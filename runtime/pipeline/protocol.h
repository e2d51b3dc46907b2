// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hetpipe {

// MessageHeader::kind of every message of a run. The fields minibatch, label, part are explained in
// the comments.
enum class MessageKind : std::int32_t {
  // Channel::forward / backward: tensors of one Transfer. minibatch; label of F, with gradients the
  // exponent of the loss's scale
  activations = 1,
  gradients,
  evaluation,  // minibatch: batch of the test set
  // Channel::push: minibatch = wave; in pieces (runtime/sync/push_pieces.h). Channel::pull: label
  push,
  pull_weights,
  pull_statistics,
  // Channel::reduce: part = number of the sum, minibatch, label = piece
  partial_sum,   // up a group: the terms so far
  finished_sum,  // down again
  // Channel::checkpoint, from stages and shards to the collector: part, label
  checkpoint_part,
  // Channel::control
  shard_arrived,      // part = shard, minibatch = wave, label = virtual worker
  gate_request,       // part = virtual worker, minibatch = wave
  gate_grant,         // minibatch = wave, label
  pull_request,       // part = stage, minibatch = next gate's wave after this pull, label; payload:
                      // PullRequest
  checkpoint_coming,  // part, label, minibatch = bytes of the checkpoint_part that follows
  checkpoint_confirm,    // collector -> all: label
  checkpoint_confirmed,  // ... -> collector: label
  worker_finished,       // part = virtual worker, label = stage
  wave_report,           // payload: WaveReport
  evaluation_report,
  rank_report,
  checkpoint_written,   // label; payload: path
  checkpoint_failed,    // label, part = exit code; payload: why
  checkpoint_left_out,  // label
  stop_wanted,          // any rank -> first server rank: part = signal
  stop_at,              // first server rank -> all: label, part = signal, minibatch = rank of it
  stop_known,           // ... -> first server rank
  run_over,             // reporter -> all: everything has been reported
  life_sign,            // any rank -> all: a rank has made progress
  clock_question,       // any rank -> rank 0
  clock_answer,         // rank 0: label = its time in ns
  clock_known,          // that rank has asked enough
  overflow,             // to the stages with the loss: minibatch, label = exponent of its scale
  gradient_squares,     // to the other ranks of the virtual worker: minibatch, part = position;
                        // payload: double per parameter
  device_path,          // between two ranks that try a direct path, or use it (DevicePaths)
  path_report,          // the lower rank of two -> rank 0: part = the other, label = PathKind;
                        // payload: why, where it is staged
  find_non_finite,      // to an earlier stage, minibatch: what it sent holds NaN or infinity
};
constexpr std::int32_t code(MessageKind kind) { return static_cast<std::int32_t>(kind); }

}  // namespace hetpipe
