// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/worker_place.h"

#include "base/index.h"

namespace hetpipe {

MicroSpan WorkerPlace::micros(Payload side, int micro) const {
  const bool all = whole_minibatches || (backward_by_minibatch && side == Payload::gradients);
  return all ? MicroSpan{0, split.micro_batches()} : MicroSpan{micro, micro + 1};
}

std::vector<MessagePiece> WorkerPlace::pieces(Payload payload, const Transfer& transfer,
                                              Minibatch number, MicroSpan micro_batches,
                                              bool arriving) const {
  MessagePiece piece{payload, &transfer, number, micro_batches, replica, replica};
  const int other = arriving ? piece.sending_stage() : piece.receiving_stage();
  std::vector<MessagePiece> all;
  for (int r = 0; r < split.replicas(other); ++r) {
    (arriving ? piece.sender : piece.receiver) = r;
    if (is_sent(piece)) all.push_back(piece);
  }
  return all;
}

bool WorkerPlace::is_sent(const MessagePiece& piece) const {
  for (int m = piece.micros.first; m < piece.micros.end; ++m) {
    if (common_samples(piece, m).count() > 0) return true;
    if (common_samples(piece, m, minibatch).count() > 0) return true;
  }
  return false;
}

// Of a minibatch of so many samples.
SampleSpan WorkerPlace::common_samples(const MessagePiece& piece, int micro,
                                       std::int64_t of) const {
  return common(split.of(of, micro, piece.sending_stage(), piece.sender),
                split.of(of, micro, piece.receiving_stage(), piece.receiver));
}

SampleSpan WorkerPlace::common_samples(const MessagePiece& piece, int micro) const {
  return common_samples(piece, micro, samples(piece.minibatch));
}

SampleSpan WorkerPlace::own_samples(const MessagePiece& piece, int micro, bool arriving) const {
  const int stage_number = arriving ? piece.receiving_stage() : piece.sending_stage();
  return split.of(samples(piece.minibatch), micro, stage_number, replica);
}

std::int64_t WorkerPlace::samples_in(const MessagePiece& piece) const {
  std::int64_t sum = 0;
  for (int m = piece.micros.first; m < piece.micros.end; ++m) {
    sum += common_samples(piece, m).count();
  }
  return sum;
}

Rank WorkerPlace::other_end(const MessagePiece& piece, bool arriving) const {
  return arriving ? ranks[at(piece.sending_stage())][at(piece.sender)]
                  : ranks[at(piece.receiving_stage())][at(piece.receiver)];
}

ElementType WorkerPlace::wire_type(int from_stage, int sender, int to_stage, int receiver) const {
  if (element_types.empty()) return ElementType::fp32;
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  const ElementType from = element_types[at(from_stage)][at(sender)];
  const ElementType to = element_types[at(to_stage)][at(receiver)];
  return bytes_of(to) < bytes_of(from) ? to : from;
}

std::optional<StagePass> ForwardCursor::next() {
  while (passes_.empty() && at_ < place_.actions().size()) {
    const Action action = place_.actions().at(at_++);
    if (action.kind != ActionKind::forward || !wanted_[at(action.chunk)]) continue;
    const MicroSpan micros = place_.micros(Payload::activations, action.micro);
    for (int m = micros.first; m < micros.end; ++m) {
      passes_.push_back({action.minibatch, m, action.chunk});
    }
  }
  if (passes_.empty()) return std::nullopt;
  const StagePass pass = passes_.front();
  passes_.pop_front();
  return pass;
}

std::optional<Action> MessageCursor::next() {
  while (at_ < actions_.size()) {
    const Action action = actions_.at(at_++);
    if (action.kind != ActionKind::send || action.payload != payload_) continue;
    if (!end_ || action.minibatch < *end_) return action;
    if (actions_.begins_at(at_, *end_)) break;
  }
  return std::nullopt;
}

}  // namespace hetpipe
