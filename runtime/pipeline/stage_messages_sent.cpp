// SPDX-License-Identifier: Apache-2.0
// What a rank sends, and from which memory.
#include <algorithm>

#include "base/index.h"
#include "base/text.h"
#include "base/time.h"
#include "runtime/pipeline/message_parts.h"
#include "runtime/pipeline/stage_messages.h"

namespace hetpipe {

using message_parts::channel_of;
using message_parts::copy_samples;
using message_parts::layers_of;
using message_parts::tensors_of;
using message_parts::Way;

namespace {

constexpr std::size_t kTestMessagesAhead = 1;

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
  note_queued(Payload::gradients);
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
