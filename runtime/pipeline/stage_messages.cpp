// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage_messages.h"

#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

constexpr std::size_t kTestMessagesAhead = 1;

TensorsOf tensors_of(const MessagePiece& piece) {
  return {.minibatch = piece.minibatch,
          .micro = piece.micros.first,
          .stage = StageId{piece.receiving_stage()}};
}
TensorsOf tensors_of(const MessageHeader& header, Payload payload) {
  return payload == Payload::activations ? read_as<ActivationsSent>(header).of
                                         : read_as<GradientsSent>(header).of;
}
Channel channel_of(Payload payload) {
  return payload == Payload::activations ? Channel::forward : Channel::backward;
}

// Whose tensors, or their gradients, a message of the transfer holds.
std::vector<int> layers_of(const Transfer& transfer, Payload payload) {
  std::vector<int> layers = transfer.layers;
  if (payload == Payload::gradients) {
    layers.insert(layers.end(), transfer.more_gradients.begin(), transfer.more_gradients.end());
  }
  return layers;
}

// Samples `span` of a transfer's tensors, packed for samples `mine`, into or out of a message of
// `wire` elements. Returns one past what it took of that.
enum class Way { into_message, out_of_message };
std::byte* copy_samples(const Stage& stage, const std::vector<int>& layers, SampleSpan mine,
                        SampleSpan span, std::byte* packed, std::byte* message, ElementType wire,
                        Way way) {
  Device& device = stage.device();
  const ElementType own = device.element_type();
  for (const int layer : layers) {
    const auto sample = static_cast<std::size_t>(stage.output_elements(layer, 1));
    const std::size_t elements = static_cast<std::size_t>(span.count()) * sample;
    std::byte* const tensor =
        packed + static_cast<std::size_t>(span.first - mine.first) * sample * bytes_of(own);
    const bool into = way == Way::into_message;
    std::byte *const to = into ? message : tensor, *const from = into ? tensor : message;
    if (wire == own) {
      device.copy(stage.stream(), to, from, elements * bytes_of(own));
    } else {
      device.convert(stage.stream(), to, into ? wire : own, from, into ? own : wire,
                     static_cast<std::int64_t>(elements));
    }
    message += elements * bytes_of(wire);
    packed += static_cast<std::size_t>(mine.count()) * sample * bytes_of(own);
  }
  return message;
}

// The gradients of a pass, as a B makes them in elements of type `own`, are the one message of
// their transfer.
bool is_the_message(const WorkerPlace& place, const std::vector<MessagePiece>& pieces,
                    ElementType own) {
  if (pieces.size() != 1) return false;
  const MessagePiece& piece = pieces[0];
  const int micro = piece.micros.first;
  return piece.micros.end - micro == 1 && place.wire_type(piece) == own &&
         place.common_samples(piece, micro) == place.own_samples(piece, micro, false);
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
  post_ahead();
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

// Gradients that are packed from what a B made are beside that when the B's workspace has gone;
// others lie in their message from the start.
void StageMessages::keep(const MessagesAhead& kept) {
  WorkerPlace place = place_;
  place.samples = [whole = place_.minibatch](Minibatch) { return whole; };
  const auto pieces_of = [&](Payload payload, const Transfer& transfer) {
    return place.pieces(payload, transfer, 0, place.micros(payload, 0), false);
  };
  const auto bytes_of_message = [&](const MessagePiece& piece) {
    return static_cast<std::size_t>(message_bytes(piece, place.samples_in(piece)));
  };
  for (const Stage* stage : chunks_) {
    for (const Transfer& transfer : stage->outgoing()) {
      for (const MessagePiece& piece : pieces_of(Payload::activations, transfer)) {
        for_activations_.keep(bytes_of_message(piece), kept.activations);
      }
    }
    for (const Transfer& transfer : stage->incoming()) {
      const auto pieces = pieces_of(Payload::gradients, transfer);
      const int made =
          kept.gradients > 0 && is_the_message(place, pieces, device_.element_type()) ? 1 : 0;
      for (const MessagePiece& piece : pieces) {
        for_gradients_.keep(bytes_of_message(piece), kept.gradients + made);
      }
    }
  }
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

void StageMessages::send(Buffer data, std::size_t bytes, Rank to, Channel channel,
                         const MessageHeader& header) {
  Operation operation = transport_.send(to, channel, header, {data.data(), bytes});
  (channel == Channel::evaluate ? sending_tests_ : sending_)
      .push_back({std::move(operation), std::move(data), channel, bytes, to});
}

void StageMessages::send(const MessagePiece& piece, Buffer data, const MessageHeader& header) {
  const bool forward = piece.payload == Payload::activations;
  const std::int64_t bytes = message_bytes(piece);
  (forward ? report_.bytes_forward : report_.bytes_backward) += bytes;
  ++(forward ? report_.messages_forward : report_.messages_backward);
  send(std::move(data), static_cast<std::size_t>(bytes), place_.other_end(piece, false),
       channel_of(piece.payload), header);
}

// Until no more are leaving for the peer than are counted beside this one: two, or one and a
// gradient whose receive is posted. Along a skip as many for each stage that it passes. The peer
// takes them whatever becomes of this stage, which has sent all that those need; between chunks,
// where activations go round, nobody waits.
void StageMessages::wait_for_room(const MessagePiece& piece) {
  if (chunks_.size() > 1) return;
  const bool posted = std::any_of(posted_.begin(), posted_.end(), [](const auto& one) {
    return std::get<Payload>(one.first) == Payload::gradients;
  });
  wait_until_leaving(piece, place_.other_end(piece, false), posted ? 0 : 1);
}

// No more activations than are ahead, and `more`, for the rank at the other end of a transfer.
void StageMessages::wait_until_leaving(const MessagePiece& piece, Rank to, int more) {
  const int stages = piece.transfer->to_stage - piece.transfer->from_stage;
  const int most = stages * (activations_ahead_ + more);
  const auto leaves = [to](const Sending& sending) {
    return sending.channel == Channel::forward && sending.to == to && !sending.operation.done();
  };
  while (std::count_if(sending_.begin(), sending_.end(), leaves) > most) {
    const std::int64_t start = now_ns();
    service_.wait(std::find_if(sending_.begin(), sending_.end(), leaves)->operation, [&] {
      return Awaited(
          format("rank %d (virtual worker %d, stage %d) to take an activation from before "
                 "minibatch %lld",
                 to.value, place_.virtual_worker.value, piece.receiving_stage(),
                 static_cast<long long>(piece.minibatch)),
          to);
    });
    ahead_.waited(start, now_ns(), &RankReport::bubble_seconds);
  }
  release_sent();
}

void StageMessages::send_activations(const Action& action, const std::vector<Pass*>& passes,
                                     Label label) {
  Stage& stage = *chunks_[at(action.chunk)];
  const auto micros = place_.micros(Payload::activations, action.micro);
  note_queued(Payload::activations);
  for (const Transfer& transfer : stage.outgoing()) {
    for (const MessagePiece& piece :
         place_.pieces(Payload::activations, transfer, action.minibatch, micros, false)) {
      wait_for_room(piece);
      Buffer data = for_activations_.take(static_cast<std::size_t>(message_bytes(piece)));
      std::byte* to = data.data();
      for (int m = micros.first; m < micros.end; ++m) {
        const SampleSpan mine = place_.own_samples(piece, m, false);
        const SampleSpan span = place_.common_samples(piece, m);
        to =
            stage.pack_activations(*passes[at(m - micros.first)], transfer, span.first - mine.first,
                                   span.count(), place_.wire_type(piece), to);
      }
      send(piece, std::move(data),
           header_of(ActivationsSent{.of = tensors_of(piece), .label = label}));
    }
  }
}

void StageMessages::place_gradients(const Action& action, Pass& pass) {
  const Stage& stage = *chunks_[at(action.chunk)];
  const auto micros = place_.micros(Payload::gradients, action.micro);
  release_sent();
  pass.gradients_out.clear();
  for (const Transfer& transfer : stage.incoming()) {
    const auto to = place_.pieces(Payload::gradients, transfer, action.minibatch, micros, false);
    const auto bytes = static_cast<std::size_t>(stage.gradient_bytes(transfer, pass.samples));
    pass.gradients_out.push_back(
        {&transfer, is_the_message(place_, to, device_.element_type())
                        ? for_gradients_.take(bytes)
                        : Buffer(device_, stream_, bytes, MemoryKind::messages)});
  }
}

void StageMessages::send_gradients(const Action& action, const std::vector<Pass*>& passes,
                                   int scale_exponent) {
  const Stage& stage = *chunks_[at(action.chunk)];
  const auto micros = place_.micros(Payload::gradients, action.micro);
  for (std::size_t t = 0; t < stage.incoming().size(); ++t) {
    const Transfer& transfer = stage.incoming()[t];
    const auto to = place_.pieces(Payload::gradients, transfer, action.minibatch, micros, false);
    for (const MessagePiece& piece : to) {
      const bool as_it_is = is_the_message(place_, to, device_.element_type());
      Buffer data = as_it_is ? std::move(passes[0]->gradients_out[t].data)
                             : for_gradients_.take(static_cast<std::size_t>(message_bytes(piece)));
      std::byte* next = data.data();
      for (int m = micros.first; m < micros.end && !as_it_is; ++m) {
        next = copy_samples(stage, layers_of(transfer, Payload::gradients),
                            place_.own_samples(piece, m, false), place_.common_samples(piece, m),
                            passes[at(m - micros.first)]->gradients_out[t].data.data(), next,
                            place_.wire_type(piece), Way::into_message);
      }
      send(piece, std::move(data),
           header_of(GradientsSent{.of = tensors_of(piece), .scale_exponent = scale_exponent}));
    }
  }
  for (Pass* pass : passes) pass->gradients_out.clear();
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

void StageMessages::send_test_batch(int chunk, const Pass& pass, std::int64_t number,
                                    std::int64_t samples) {
  Stage& stage = *chunks_[at(chunk)];
  const SampleSpan mine = place_.split.whole(samples, stage.id().value, place_.replica);
  // No schedule holds back a stage that is faster than the next one. (Of training messages, which
  // may wait until the next stage has evaluated too, it must not wait for any.)
  while (sending_tests_.size() > kTestMessagesAhead) {
    service_.wait(sending_tests_.front().operation, [&] {
      return "activations of a test batch before " + std::to_string(number) + " to be sent";
    });
    sending_tests_.pop_front();
  }
  for (const Transfer& transfer : stage.outgoing()) {
    for (int r = 0; r < place_.split.replicas(transfer.to_stage); ++r) {
      const SampleSpan span = common(mine, place_.split.whole(samples, transfer.to_stage, r));
      if (span.count() == 0) continue;
      const ElementType wire =
          place_.wire_type(transfer.from_stage, place_.replica, transfer.to_stage, r);
      Buffer data(device_, stream_,
                  static_cast<std::size_t>(stage.transfer_elements(transfer, span.count())) *
                      bytes_of(wire),
                  MemoryKind::messages);
      stage.pack_activations(pass, transfer, span.first - mine.first, span.count(), wire,
                             data.data());
      const std::size_t bytes = data.bytes();
      report_.bytes_evaluation += static_cast<std::int64_t>(bytes);
      send(std::move(data), bytes, place_.ranks[at(transfer.to_stage)][at(r)], Channel::evaluate,
           header_of(TestActivationsSent{.batch = number, .stage = StageId{transfer.to_stage}}));
    }
  }
}

void StageMessages::release_sent() {
  for (std::deque<Sending>* sending : {&sending_, &sending_tests_}) {
    while (!sending->empty() && sending->front().operation.done()) {
      Sending& sent = sending->front();
      if (sent.channel == Channel::forward) for_activations_.give_back(std::move(sent.data));
      if (sent.channel == Channel::backward) for_gradients_.give_back(std::move(sent.data));
      sending->pop_front();
    }
  }
}

void StageMessages::note_queued(Payload payload) {
  release_sent();
  std::int64_t queued = 0;
  for (const Sending& sending : sending_) {
    if (sending.channel == channel_of(payload)) {
      queued += static_cast<std::int64_t>(sending.bytes);
    }
  }
  report_.bytes_queued = std::max(report_.bytes_queued, queued);
}

void StageMessages::finish() {
  for (std::deque<Sending>* all : {&sending_, &sending_tests_}) {
    for (const Sending& sending : *all) {
      service_.wait(sending.operation, [] { return std::string("the last sends to complete"); });
    }
    all->clear();
  }
}

}  // namespace hetpipe
