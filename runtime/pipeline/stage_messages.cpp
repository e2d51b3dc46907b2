// SPDX-License-Identifier: Apache-2.0
// What a rank receives.
#include "runtime/pipeline/stage_messages.h"

#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/message_parts.h"

namespace hetpipe {

using message_parts::channel_of;
using message_parts::copy_samples;
using message_parts::layers_of;
using message_parts::tensors_of;
using message_parts::Way;

namespace {

TensorsOf tensors_of(const MessageHeader& header, Payload payload) {
  return payload == Payload::activations ? read_as<ActivationsSent>(header).of
                                         : read_as<GradientsSent>(header).of;
}

}  // namespace

StageMessages::StageMessages(const WorkerPlace& place, std::vector<Stage*> chunks,
                             DeviceTransport& transport, RankService& service, Pace& pace,
                             RankReport& report, WorkQueue& ahead, const MessagesAhead& kept)
    : place_(place),
      chunks_(std::move(chunks)),
      transport_(transport),
      service_(service),
      pace_(pace),
      report_(report),
      ahead_(ahead),
      device_(chunks_.front()->device()),
      stream_(chunks_.front()->stream()),
      activations_ahead_(kept.activations),
      for_activations_(device_, stream_, MemoryKind::messages),
      for_gradients_(device_, stream_, MemoryKind::messages) {
  keep(kept);
  for (const Payload payload : {Payload::activations, Payload::gradients}) {
    std::map<std::pair<int, int>, Rank> peers;  // (position, replica)
    for (const Stage* stage : chunks_) {
      for (const Transfer& transfer : along(payload, *stage, true)) {
        const int from = MessagePiece{payload, &transfer}.sending_stage();
        for (int r = 0; r < place_.split.replicas(from); ++r) {
          peers[{from % place_.positions(), r}] = place_.ranks[at(from)][at(r)];
        }
      }
    }
    for (const auto& [where, rank] : peers) {
      const PeriodicActions& actions = (*place_.schedule)[at(where.first)];
      sources_.push_back(
          {rank, where.first, where.second, payload, MessageCursor(actions, payload), {}, {}});
    }
  }
}

// Activations come along the incoming transfers and leave along the outgoing ones; gradients the
// other way round.
const std::vector<Transfer>& StageMessages::along(Payload payload, const Stage& stage,
                                                  bool arriving) const {
  return arriving == (payload == Payload::activations) ? stage.incoming() : stage.outgoing();
}

std::int64_t StageMessages::message_bytes(const MessagePiece& piece) const {
  return message_bytes(piece, place_.samples_in(piece));
}

std::int64_t StageMessages::message_bytes(const MessagePiece& piece, std::int64_t samples) const {
  const Stage& any = *chunks_.front();
  return (piece.payload == Payload::activations ? any.transfer_elements(*piece.transfer, samples)
                                                : any.gradient_elements(*piece.transfer, samples)) *
         static_cast<std::int64_t>(bytes_of(place_.wire_type(piece)));
}

void StageMessages::stop_before(Minibatch end) {
  for (Source& source : sources_) {
    source.cursor.stop_before(end);
    std::erase_if(source.coming,
                  [end](const MessagePiece& piece) { return piece.minibatch >= end; });
  }
}

// Finds what the source's next send brings here; false: it sends nothing more.
bool StageMessages::look_further(Source& source) {
  while (source.coming.empty()) {
    const std::optional<Action> sent = source.cursor.next();
    if (!sent) return false;
    const int from = sent->chunk * place_.positions() + source.position;
    const auto micros = place_.micros(source.payload, sent->micro);
    for (const Stage* stage : chunks_) {
      for (const Transfer& transfer : along(source.payload, *stage, true)) {
        const MessagePiece piece{source.payload, &transfer,      sent->minibatch,
                                 micros,         source.replica, place_.replica};
        if (piece.sending_stage() == from && place_.is_sent(piece)) source.coming.push_back(piece);
      }
    }
  }
  return true;
}

void StageMessages::post_next(Source& source) {
  const MessagePiece piece = source.coming.front();
  source.coming.pop_front();
  const auto bytes = static_cast<std::size_t>(message_bytes(piece));
  Posted posted{Buffer(device_, stream_, bytes, MemoryKind::messages), {}};
  posted.operation =
      transport_.receive(source.peer, channel_of(source.payload), {posted.data.data(), bytes});
  source.newest = piece.key();
  const bool added = posted_.emplace(piece.key(), std::move(posted)).second;
  ensure(added, "a message that is expected twice");
}

// One receive of each source waits for what comes next; for a gradient only once all activations
// have left, whose memory it takes (device_ledger counts two of that size).
void StageMessages::post_ahead() {
  release_sent();
  const bool leaving = std::any_of(sending_.begin(), sending_.end(), [](const Sending& sending) {
    return sending.channel == Channel::forward;
  });
  for (Source& source : sources_) {
    if (leaving && source.payload == Payload::gradients) continue;
    const bool waiting = source.newest && posted_.contains(*source.newest);
    if (!waiting && look_further(source)) post_next(source);
  }
}

StageMessages::Posted StageMessages::claim(const MessagePiece& piece) {
  const MessagePiece::Key key = piece.key();
  const Rank from = place_.other_end(piece, true);
  for (auto found = posted_.find(key); found == posted_.end(); found = posted_.find(key)) {
    const auto source = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) {
      return s.peer == from && s.payload == piece.payload;
    });
    ensure(source != sources_.end() && look_further(*source), "a message that no rank sends");
    // Before a gradient of 1F1B comes its sender has taken all but those that are ahead.
    const bool alternates = chunks_.size() == 1 && !place_.backward_by_minibatch;
    if (piece.payload == Payload::gradients && alternates) {
      wait_until_leaving(piece, from, 1);
    }
    post_next(*source);
  }
  Posted posted = std::move(posted_.at(key));
  posted_.erase(key);
  post_ahead();
  const Waited waited = wait(
      posted.operation, from,
      piece.payload == Payload::activations ? "activation of minibatch" : "gradient of minibatch",
      piece.minibatch, piece.receiving_stage());
  const MessageHeader& header = posted.operation.header();
  ensure(tensors_of(header, piece.payload) == tensors_of(piece),
         "a message of another minibatch arrived");
  const std::int64_t sent = std::clamp(header.sent_ns, waited.start_ns, waited.end_ns);
  ahead_.waited(waited.start_ns, sent, &RankReport::bubble_seconds);
  ahead_.waited(sent, waited.end_ns, &RankReport::transfer_seconds);
  post_ahead();  // what was leaving may have left
  return posted;
}

StageMessages::Waited StageMessages::wait(const Operation& operation, Rank peer, const char* what,
                                          std::int64_t number, int stage) {
  const std::int64_t start = now_ns();
  service_.wait(operation, [&] {
    return Awaited(
        format("the %s %lld from rank %d (for virtual worker %d, stage %d)", what,
               static_cast<long long>(number), peer.value, place_.virtual_worker.value, stage),
        peer);
  });
  const std::int64_t end = now_ns();
  // In modelled time a message is there when its link delivers it; over a real link, when it is
  // noticed.
  const std::int64_t delivered = operation.header().deliver_ns;
  pace_.input_at(delivered > 0 ? delivered : end);
  return {start, end};
}

StageMessages::Arrived StageMessages::take(Payload payload, const Action& action) {
  const Stage& stage = *chunks_[at(action.chunk)];
  const auto micros = place_.micros(payload, action.micro);
  Arrived arrived;
  arrived.tensors.resize(at(micros.end - micros.first));
  for (const Transfer& transfer : along(payload, stage, true)) {
    const std::vector<MessagePiece> from =
        place_.pieces(payload, transfer, action.minibatch, micros, true);
    std::vector<Posted> messages;
    for (const MessagePiece& piece : from) {
      messages.push_back(claim(piece));
      const MessageHeader& header = messages.back().operation.header();
      if (payload == Payload::activations) {
        arrived.label = read_as<ActivationsSent>(header).label;
      } else {
        arrived.scale_exponent = read_as<GradientsSent>(header).scale_exponent;
      }
    }
    std::vector<std::byte*> read;
    for (const Posted& message : messages) read.push_back(message.data.data());
    for (int m = micros.first; m < micros.end; ++m) {
      arrived.tensors[at(m - micros.first)].push_back(unpack(from, messages, read, transfer, m));
    }
  }
  return arrived;
}

// One micro-batch's tensors of a transfer, from the messages that hold its samples.
Packed StageMessages::unpack(const std::vector<MessagePiece>& from, std::vector<Posted>& messages,
                             std::vector<std::byte*>& read, const Transfer& transfer, int micro) {
  const bool as_it_came =
      from.size() == 1 && place_.wire_type(from[0]) == device_.element_type() &&
      from[0].micros.end - from[0].micros.first == 1 &&
      place_.common_samples(from[0], micro) == place_.own_samples(from[0], micro, true);
  if (as_it_came) return {&transfer, std::move(messages[0].data)};
  const std::int64_t own = from.empty() ? 0 : place_.own_samples(from[0], micro, true).count();
  const Stage& any = *chunks_.front();
  const Payload payload = from.empty() ? Payload::activations : from[0].payload;
  const std::int64_t bytes = payload == Payload::activations ? any.transfer_bytes(transfer, own)
                                                             : any.gradient_bytes(transfer, own);
  Buffer packed(device_, stream_, static_cast<std::size_t>(bytes), MemoryKind::messages);
  const std::vector<int> layers = layers_of(transfer, payload);
  for (std::size_t i = 0; i < from.size(); ++i) {
    read[i] = copy_samples(any, layers, place_.own_samples(from[i], micro, true),
                           place_.common_samples(from[i], micro), packed.data(), read[i],
                           place_.wire_type(from[i]), Way::out_of_message);
  }
  return {&transfer, std::move(packed)};
}

std::vector<Packed> StageMessages::take_test_batch(int chunk, std::int64_t number,
                                                   std::int64_t samples) {
  const Stage& stage = *chunks_[at(chunk)];
  const SampleSpan mine = place_.split.whole(samples, stage.id().value, place_.replica);
  std::vector<Packed> tensors;
  for (const Transfer& transfer : stage.incoming()) {
    Buffer packed(device_, stream_,
                  static_cast<std::size_t>(stage.transfer_bytes(transfer, mine.count())),
                  MemoryKind::messages);
    for (int r = 0; r < place_.split.replicas(transfer.from_stage); ++r) {
      const SampleSpan span = common(mine, place_.split.whole(samples, transfer.from_stage, r));
      if (span.count() == 0) continue;
      const ElementType wire =
          place_.wire_type(transfer.from_stage, r, transfer.to_stage, place_.replica);
      const auto bytes = static_cast<std::size_t>(stage.transfer_elements(transfer, span.count())) *
                         bytes_of(wire);
      Buffer message(device_, stream_, bytes, MemoryKind::messages);
      const Rank from = place_.ranks[at(transfer.from_stage)][at(r)];
      const Operation operation =
          transport_.receive(from, Channel::evaluate, {message.data(), bytes});
      wait(operation, from, "activation of test batch", number, transfer.to_stage);
      ensure(read_as<TestActivationsSent>(operation.header()) ==
                 TestActivationsSent{.batch = number, .stage = stage.id()},
             "a message of another test batch arrived");
      copy_samples(stage, transfer.layers, mine, span, packed.data(), message.data(), wire,
                   Way::out_of_message);
    }
    tensors.push_back({&transfer, std::move(packed)});
  }
  return tensors;
}

}  // namespace hetpipe
