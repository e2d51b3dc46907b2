// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/stage_messages.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "base/time.h"

namespace hetpipe {
namespace {

std::int32_t code(MessageKind kind) { return static_cast<std::int32_t>(kind); }

// partitioner/schedule/schedule.h's rule for all actions at once: a receive before the F of its
// minibatch takes activations, one after it gradients; a send before the B activations, one after
// it gradients.
std::vector<Payload> payloads_of(const StageActions& actions) {
  std::vector<Payload> payloads(actions.size(), Payload::activations);
  std::set<Minibatch> forward;
  std::set<Minibatch> backward;
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const auto [kind, p] = std::pair(actions[i].kind, actions[i].minibatch);
    if (kind == ActionKind::forward) forward.insert(p);
    if (kind == ActionKind::backward) backward.insert(p);
    const bool second = kind == ActionKind::receive ? forward.contains(p) : backward.contains(p);
    if (second) payloads[i] = Payload::gradients;
    if (kind == ActionKind::update) {  // nothing of p follows
      forward.erase(p);
      backward.erase(p);
    }
  }
  return payloads;
}

}  // namespace

StageMessages::StageMessages(Neighbourhood neighbours, const StageActions& actions, Stage& stage,
                             RankService& service, Pace& pace, RankReport& report)
    : neighbours_(std::move(neighbours)),
      actions_(actions),
      payloads_(payloads_of(actions)),
      stage_(stage),
      service_(service),
      pace_(pace),
      report_(report) {
  std::size_t after_evaluation = 0;
  for (std::size_t i = 0; i < actions_.size(); ++i) {
    if (actions_[i].kind == ActionKind::evaluate) after_evaluation = i + 1;
    if (actions_[i].kind != ActionKind::receive) continue;
    const bool activations = payloads_[i] == Payload::activations;
    coming_of(payloads_[i]).push_back({i, activations ? after_evaluation : 0});
  }
}

std::deque<StageMessages::Coming>& StageMessages::coming_of(Payload payload) {
  return payload == Payload::activations ? activations_coming_ : gradients_coming_;
}

// Activations come along the incoming transfers, gradients back along the outgoing ones.
const std::vector<Transfer>& StageMessages::transfers_of(Payload payload) const {
  return payload == Payload::activations ? stage_.incoming() : stage_.outgoing();
}

Rank StageMessages::peer(const Transfer& transfer) const {
  const int other =
      transfer.from_stage == stage_.id().value ? transfer.to_stage : transfer.from_stage;
  return neighbours_.rank_of_stage[static_cast<std::size_t>(other)];
}

std::optional<StageMessages::Posted>& StageMessages::posted(Payload payload) {
  return payload == Payload::activations ? activations_ : gradients_;
}

void StageMessages::stop_before(Minibatch end) {
  for (std::deque<Coming>* coming : {&activations_coming_, &gradients_coming_}) {
    while (!coming->empty() && actions_[coming->back().action].minibatch >= end) coming->pop_back();
  }
}

void StageMessages::post_ahead(std::size_t next) {
  for (const Payload payload : {Payload::activations, Payload::gradients}) {
    std::deque<Coming>& coming = coming_of(payload);
    if (posted(payload) || coming.empty() || coming.front().not_before > next) continue;
    post(coming.front().action);
  }
}

void StageMessages::post(std::size_t action) {
  const Payload payload = payloads_[action];
  ensure(coming_of(payload).front().action == action,
         "receives are posted in the schedule's order");
  coming_of(payload).pop_front();
  Posted next{.action = action, .tensors = {}, .operations = {}};
  const std::int64_t samples = neighbours_.samples(actions_[action].minibatch);
  for (const Transfer& transfer : transfers_of(payload)) {
    const auto bytes = static_cast<std::size_t>(stage_.transfer_bytes(transfer, samples));
    next.tensors.push_back(
        {&transfer, Buffer(stage_.device(), stage_.stream(), bytes, MemoryKind::messages)});
    next.operations.push_back(service_.transport().receive(
        peer(transfer), payload == Payload::activations ? Channel::forward : Channel::backward,
        {next.tensors.back().data.data(), bytes}));
  }
  posted(payload) = std::move(next);
}

void StageMessages::wait(const Operation& operation, const Transfer& transfer, Payload payload,
                         MessageHeader expected) {
  const std::int64_t start = now_ns();
  service_.wait(operation, [&] {
    const bool test = expected.kind == code(MessageKind::evaluation);
    return Awaited(
        format("the %s of %s %lld from rank %d (for virtual worker %d, stage %d)",
               payload == Payload::activations ? "activation" : "gradient",
               test ? "test batch" : "minibatch", static_cast<long long>(expected.minibatch),
               peer(transfer).value, neighbours_.virtual_worker.value, stage_.id().value),
        peer(transfer));
  });
  const std::int64_t end = now_ns();
  const MessageHeader& header = operation.header();
  ensure(header.kind == expected.kind && header.minibatch == expected.minibatch,
         "a message of another minibatch arrived");
  // In modelled time a message is there when its link delivers it; over a real link, when it is
  // noticed.
  pace_.input_at(header.deliver_ns > 0 ? header.deliver_ns : end);
  if (expected.kind == code(MessageKind::evaluation)) return;  // its time is reported apart
  const std::int64_t sent = std::clamp(header.sent_ns, start, end);
  report_.bubble_seconds += seconds_between(start, sent);
  report_.transfer_seconds += seconds_between(sent, end);
}

StageMessages::Arrived StageMessages::take(std::size_t action) {
  const Payload payload = payloads_[action];
  std::optional<Posted>& ahead = posted(payload);
  if (!ahead) post(action);
  ensure(ahead->action == action, "receives are taken in the schedule's order");
  const MessageKind kind =
      payload == Payload::activations ? MessageKind::activations : MessageKind::gradients;
  for (std::size_t i = 0; i < ahead->operations.size(); ++i) {
    wait(ahead->operations[i], *ahead->tensors[i].transfer, payload,
         {.kind = code(kind), .minibatch = actions_[action].minibatch});
  }
  Arrived arrived{std::move(ahead->tensors), ahead->operations.front().header().label};
  ahead.reset();
  return arrived;
}

void StageMessages::send(Buffer data, const Transfer& transfer, Payload payload,
                         const MessageHeader& header) {
  const bool forward = payload == Payload::activations;
  service_.settle(stage_.stream(), [] { return std::string("tensors to be ready for sending"); });
  const auto bytes = static_cast<std::int64_t>(data.bytes());
  if (header.kind == code(MessageKind::evaluation)) {
    report_.bytes_evaluation += bytes;
  } else {
    (forward ? report_.bytes_forward : report_.bytes_backward) += bytes;
    ++(forward ? report_.messages_forward : report_.messages_backward);
  }
  Operation operation =
      service_.transport().send(peer(transfer), forward ? Channel::forward : Channel::backward,
                                header, {data.data(), data.bytes()});
  sending_.push_back({std::move(operation), std::move(data)});
}

void StageMessages::send_activations(const Pass& pass, Minibatch p, Label label) {
  for (const Transfer& transfer : stage_.outgoing()) {
    send(stage_.pack_activations(pass, transfer), transfer, Payload::activations,
         {.kind = code(MessageKind::activations), .minibatch = p, .label = label});
  }
}

void StageMessages::send_gradients(Pass& pass, Minibatch p, Label label) {
  for (Packed& packed : pass.gradients_out) {
    send(std::move(packed.data), *packed.transfer, Payload::gradients,
         {.kind = code(MessageKind::gradients), .minibatch = p, .label = label});
  }
  pass.gradients_out.clear();
}

std::vector<Packed> StageMessages::take_test_batch(std::int64_t number, std::int64_t samples) {
  std::vector<Packed> tensors;
  for (const Transfer& transfer : stage_.incoming()) {
    const auto bytes = static_cast<std::size_t>(stage_.transfer_bytes(transfer, samples));
    tensors.push_back(
        {&transfer, Buffer(stage_.device(), stage_.stream(), bytes, MemoryKind::messages)});
    const Operation operation = service_.transport().receive(peer(transfer), Channel::forward,
                                                             {tensors.back().data.data(), bytes});
    wait(operation, transfer, Payload::activations,
         {.kind = code(MessageKind::evaluation), .minibatch = number});
  }
  return tensors;
}

void StageMessages::send_test_batch(const Pass& pass, std::int64_t number) {
  for (const Transfer& transfer : stage_.outgoing()) {
    send(stage_.pack_activations(pass, transfer), transfer, Payload::activations,
         {.kind = code(MessageKind::evaluation), .minibatch = number});
  }
}

void StageMessages::release_sent() {
  while (!sending_.empty() && sending_.front().operation.done()) sending_.pop_front();
}

void StageMessages::finish() {
  for (const Sending& sending : sending_) {
    service_.wait(sending.operation, [] { return std::string("the last sends to leave"); });
  }
  sending_.clear();
}

}  // namespace hetpipe
