// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/nccl_path.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/keep_for_ever.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// What travels through the Transport in place of a message's bytes.
struct NcclNote {
  std::uint64_t bytes = 0;
  std::uint64_t number = 0;  // on the link
};

using Number = unsigned long long;

}  // namespace

struct NcclPath::Outgoing {
  std::shared_ptr<Operation::State> state;
  MessageHeader header;
  std::span<const std::byte> memory;
  std::unique_ptr<Event> ready;  // what is sent has been computed
  NcclNote note{};
  Operation message{};  // the note's
  std::shared_ptr<NcclLink::Transfer> transfer{};
};

struct NcclPath::Incoming {
  std::shared_ptr<Operation::State> state;
  std::span<std::byte> memory;
  std::unique_ptr<Event> free;  // the memory's earlier users are done
  bool announced = false;       // the peer knows that it is awaited
  NcclNote note{};
  Operation message{};
  std::shared_ptr<NcclLink::Transfer> transfer{};
};

struct NcclPath::Lane {
  explicit Lane(Channel of) : channel(of) {}
  Channel channel;
  std::deque<std::shared_ptr<Outgoing>> to_send{};
  std::uint64_t awaited = 0;                         // messages more than were sent
  std::deque<std::shared_ptr<Incoming>> incoming{};  // that are not being received yet
};

NcclPath::NcclPath(Transport& transport, Rank peer, Stream& stream, const NcclModule& module,
                   const On& on, SendWord send_word)
    : transport_(transport),
      peer_(peer),
      stream_(stream),
      module_(module),
      on_(on),
      send_word_(std::move(send_word)) {}

// Notes that are under way stay lent to the transport forever.
NcclPath::~NcclPath() {
  const bool idle = this->idle();
  disconnect();
  if (idle) return;
  keep_for_ever(std::tuple(std::move(lanes_), std::move(leaving_), std::move(arriving_)));
}

std::string NcclPath::offer() {
  if (transport_.rank() < peer_) ids_ = module_.make_id() + module_.make_id();
  return ids_;
}

void NcclPath::connect(const std::string& offer_of_peer) {
  const bool lower = transport_.rank() < peer_;
  const std::string& ids = lower ? ids_ : offer_of_peer;
  const std::size_t half = ids.size() / 2;
  const std::string up = ids.substr(0, half), down = ids.substr(half);
  const std::size_t bytes = module_.bytes_of_pair(on_.blocks);
  on_.memory.take(bytes, MemoryKind::paths);
  taken_ = bytes;
  // Both ends begin with the lower rank's messages: one order for all.
  if (lower) out_ = module_.connect(up, 0, on_.gpu, on_.blocks);
  in_ = module_.connect(lower ? down : up, 1, on_.gpu, on_.blocks);
  if (!lower) out_ = module_.connect(down, 0, on_.gpu, on_.blocks);
}

Operation NcclPath::send(Channel channel, const MessageHeader& header,
                         std::span<const std::byte> memory) {
  Lane& lane = lanes_[channel];
  auto state = std::make_shared<Operation::State>();
  lane.to_send.push_back(std::make_shared<Outgoing>(Outgoing{state, header, memory, stream_.record()}));
  send_awaited(lane);
  return Operation(std::move(state));
}

Operation NcclPath::receive(Channel channel, std::span<std::byte> memory) {
  Lane& lane = lanes_[channel];
  auto state = std::make_shared<Operation::State>();
  auto incoming = std::make_shared<Incoming>(Incoming{state, memory, stream_.record()});
  incoming->message = transport_.receive(
      peer_, channel, std::as_writable_bytes(std::span<NcclNote, 1>(&incoming->note, 1)));
  lane.incoming.push_back(std::move(incoming));
  tell_awaited(lane);
  return Operation(std::move(state));
}

bool NcclPath::send_awaited(Lane& lane) {
  bool any = false;
  while (!lane.to_send.empty() && lane.awaited > 0 && out_ != nullptr && out_->connected() &&
         lane.to_send.front()->ready->done()) {
    std::shared_ptr<Outgoing> next = std::move(lane.to_send.front());
    lane.to_send.pop_front();
    --lane.awaited;
    next->note = {next->memory.size(), sent_++};
    next->transfer = out_->send(next->memory);
    next->message = transport_.send(peer_, lane.channel, next->header,
                                    std::as_bytes(std::span<const NcclNote, 1>(&next->note, 1)));
    leaving_.push_back(std::move(next));
    any = true;
  }
  return any;
}

bool NcclPath::tell_awaited(Lane& lane) {
  bool any = false;
  for (const std::shared_ptr<Incoming>& incoming : lane.incoming) {
    if (incoming->announced) continue;
    if (!incoming->free->done()) break;
    incoming->announced = true;
    send_word_(to_string(lane.channel));
    any = true;
  }
  return any;
}

// The message that is next on the link, once its note has come.
bool NcclPath::receive_next() {
  if (in_ == nullptr || !in_->connected()) return false;
  for (bool any = false;; any = true) {
    Lane* next = nullptr;
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      if (lane->incoming.empty()) continue;
      const Incoming& first = *lane->incoming.front();
      if (first.message.done() && first.note.number == received_) next = lane.get();
    }
    if (next == nullptr) return any;
    std::shared_ptr<Incoming> incoming = std::move(next->incoming.front());
    next->incoming.pop_front();
    if (incoming->note.bytes != incoming->memory.size()) {
      throw SystemError(
          format("rank %d, channel %s: message number %llu has %llu bytes, and %zu "
                 "were expected",
                 peer_.value, to_string(next->channel),
                 static_cast<Number>(incoming->message.header().sequence),
                 static_cast<Number>(incoming->note.bytes), incoming->memory.size()));
    }
    ++received_;
    incoming->transfer = in_->receive(incoming->memory);
    arriving_.push_back(std::move(incoming));
  }
}

// The link's transfers end in order, those of notes need not.
bool NcclPath::finish() {
  bool any = false;
  for (const auto& outgoing : leaving_) {
    if (outgoing->state->done || !outgoing->transfer->done()) continue;
    any = outgoing->state->done = true;
  }
  std::erase_if(leaving_, [](const auto& outgoing) {
    return outgoing->state->done && outgoing->message.done();
  });
  for (; !arriving_.empty() && arriving_.front()->transfer->done(); arriving_.pop_front()) {
    Incoming& incoming = *arriving_.front();
    incoming.state->header = incoming.message.header();
    incoming.state->header.bytes = incoming.memory.size();
    any = incoming.state->done = true;
  }
  return any;
}

void NcclPath::take_word(const std::string& word) {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (word == to_string(lane->channel)) ++lane->awaited;
  }
}

bool NcclPath::poll() {
  bool any = false;
  // Not where nothing is awaited: the peer may have ended its part by then.
  if (out_ != nullptr && (!out_->connected() || !leaving_.empty())) any |= out_->poll();
  if (in_ != nullptr && (!in_->connected() || !arriving_.empty())) any |= in_->poll();
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    any |= send_awaited(*lane);
    any |= tell_awaited(*lane);
  }
  any |= receive_next();
  any |= finish();
  return any;
}

bool NcclPath::idle() const {
  return leaving_.empty() && arriving_.empty() &&
         std::all_of(lanes_.begin(), lanes_.end(), [](const std::unique_ptr<Lane>& lane) {
           return lane->to_send.empty() && lane->incoming.empty();
         });
}

void NcclPath::disconnect() {
  out_ = nullptr;
  in_ = nullptr;
  on_.memory.give_back(std::exchange(taken_, 0), MemoryKind::paths);
}

}  // namespace hetpipe
