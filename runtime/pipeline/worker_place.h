// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "kernels/element.h"
#include "partitioner/profile/cut.h"
#include "partitioner/schedule/periodic.h"
#include "runtime/data/sample_split.h"

// Who sends what to whom within a virtual worker, and in which order: pure arithmetic, the same at
// both ends.
namespace hetpipe {

// Micro-batches [first, end) of a minibatch.
struct MicroSpan {
  int first = 0;
  int end = 1;
};

// A message between two replicas of two stages.
struct MessagePiece {
  Payload payload = Payload::activations;
  const Transfer* transfer = nullptr;
  Minibatch minibatch = 0;
  MicroSpan micros{};
  int sender = 0;  // replica
  int receiver = 0;

  // Activations go along the transfer, gradients back.
  int sending_stage() const {
    return payload == Payload::activations ? transfer->from_stage : transfer->to_stage;
  }
  int receiving_stage() const {
    return payload == Payload::activations ? transfer->to_stage : transfer->from_stage;
  }
  using Key = std::tuple<Payload, int, int, Minibatch, int, int>;  // at the receiver
  Key key() const {
    return {payload, transfer->from_stage, transfer->to_stage, minibatch, micros.first, sender};
  }
};

// Where a rank stands in its virtual worker: it computes chunk c of the model, stage c * positions
// + position, of its replica's share of the samples.
struct WorkerPlace {
  VirtualWorkerId virtual_worker;
  int position = 0;
  int replica = 0;
  std::vector<std::vector<Rank>> ranks;  // [stage][replica]
  // The type of activations there; empty: fp32 everywhere.
  std::vector<std::vector<ElementType>> element_types{};  // [stage][replica]
  std::vector<int> stage_end;                             // one past the last layer of each stage
  SampleSplit split{1, {}};
  // How many micro-batches one action takes.
  bool whole_minibatches = false;                    // all, in F and B alike (continuous 1F1B)
  bool backward_by_minibatch = false;                // all, only in B (nF1B)
  std::int64_t minibatch = 0;                        // samples of a whole one
  std::function<std::int64_t(Minibatch)> samples;    // of a minibatch of this virtual worker
  std::shared_ptr<const PeriodicSchedule> schedule;  // of all its positions

  int positions() const { return static_cast<int>(schedule->size()); }
  int stages() const { return static_cast<int>(stage_end.size()); }
  StageId stage(int chunk) const { return StageId{chunk * positions() + position}; }
  const PeriodicActions& actions() const { return (*schedule)[static_cast<std::size_t>(position)]; }

  // Micro-batches [first, end) that an F (or V, S, R of its side) and a B take.
  MicroSpan micros(Payload side, int micro) const;

  // The messages of a transfer that arrive or leave here, one for each replica at its other
  // end that computes some of the same samples.
  std::vector<MessagePiece> pieces(Payload payload, const Transfer& transfer, Minibatch minibatch,
                                   MicroSpan micros, bool arriving) const;
  // Both ends agree on it. A message of a partial minibatch may be empty: it brings the label.
  bool is_sent(const MessagePiece& piece) const;
  // Samples of a micro-batch that both ends compute, and those that this rank does.
  SampleSpan common_samples(const MessagePiece& piece, int micro) const;
  SampleSpan own_samples(const MessagePiece& piece, int micro, bool arriving) const;
  std::int64_t samples_in(const MessagePiece& piece) const;  // of all its micro-batches
  Rank other_end(const MessagePiece& piece, bool arriving) const;
  // The element type of a message: of its two ends the smaller type, of equally large ones the
  // sender's. Each end converts from and to its own.
  ElementType wire_type(int from_stage, int sender, int to_stage, int receiver) const;
  ElementType wire_type(const MessagePiece& piece) const {
    return wire_type(piece.sending_stage(), piece.sender, piece.receiving_stage(), piece.receiver);
  }

 private:
  SampleSpan common_samples(const MessagePiece& piece, int micro, std::int64_t of) const;
};

// A pass of one of a rank's stages.
struct StagePass {
  Minibatch minibatch = 0;
  int micro = 0;
  int chunk = 0;
  bool operator==(const StagePass&) const = default;
};

// Goes along a rank's actions from one forward pass to the next.
class ForwardCursor {
 public:
  // `place` outlives this. Chunks for which `wanted` is false are passed over.
  ForwardCursor(const WorkerPlace& place, std::vector<bool> wanted)
      : place_(place), wanted_(std::move(wanted)) {}

  std::optional<StagePass> next();

 private:
  const WorkerPlace& place_;
  const std::vector<bool> wanted_;
  std::int64_t at_ = 0;
  std::deque<StagePass> passes_;  // of the action before at_
};

// Goes along a stage's actions from one of its sends to the next.
class MessageCursor {
 public:
  // `actions` outlives this. Other payloads than this one are passed over.
  MessageCursor(const PeriodicActions& actions, Payload payload)
      : actions_(actions), payload_(payload) {}

  // Minibatches from this one on are never sent.
  void stop_before(Minibatch end) { end_ = end; }
  std::optional<Action> next();

 private:
  const PeriodicActions& actions_;
  Payload payload_;
  std::optional<Minibatch> end_;
  std::int64_t at_ = 0;
};

}  // namespace hetpipe
