// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/ipc_path.h"

#include <algorithm>

#include "base/error.h"
#include "base/keep_for_ever.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// What travels through the Transport in place of a slot's bytes.
struct IpcNote {
  std::uint64_t message_bytes = 0;
  std::uint64_t offset = 0;  // in the message
  std::uint64_t slot = 0;    // counted from the first that the channel ever filled
};

constexpr std::size_t kBlockBytes = kChannelLanes * kIpcSlots * kIpcSlotBytes;

std::uint64_t slots_of(std::size_t bytes) {
  return std::max<std::uint64_t>(1, (bytes + kIpcSlotBytes - 1) / kIpcSlotBytes);
}

}  // namespace

// One slot's worth of a message that leaves, from its copy into the slot to its note's departure.
struct IpcPath::Outgoing {
  std::shared_ptr<Operation::State> state;
  MessageHeader header;
  std::span<const std::byte> memory;
  std::unique_ptr<Event> ready;  // what is sent has been computed
  std::uint64_t filled = 0;      // slots
};

struct IpcPath::Incoming {
  struct Slot {
    IpcNote note{};
    Operation message{};
    std::unique_ptr<Event> copied{};
  };
  std::shared_ptr<Operation::State> state;
  std::span<std::byte> memory;
  std::unique_ptr<Event> free;  // the memory's earlier users are done
  std::deque<Slot> slots{};
  std::size_t begun = 0;   // slots that are being copied, or have been
  std::size_t copied = 0;  // of these
};

struct IpcPath::Lane {
  struct Noted {
    IpcNote note{};
    MessageHeader header{};
    std::unique_ptr<Event> copied{};
    std::shared_ptr<Operation::State> last_of{};  // the message that it completes
    Operation message{};                          // once the note is on its way
  };
  explicit Lane(Channel of) : channel(of) {}
  Channel channel;
  std::deque<Outgoing> to_fill{};
  std::deque<Noted> notes{};   // of filled slots, in order; deque: a note stays where it is
  std::size_t notes_sent = 0;  // the first so many of those
  std::uint64_t filled = 0;    // slots, ever
  std::uint64_t freed = 0;     // by words of the peer
  std::deque<Incoming> incoming{};
};

IpcPath::IpcPath(Transport& transport, Rank peer, Device& device, Stream& stream,
                 PeerMemory& memory, SendWord send_word)
    : transport_(transport),
      peer_(peer),
      device_(device),
      stream_(stream),
      memory_(memory),
      send_word_(std::move(send_word)),
      own_(memory.share(kBlockBytes)),
      to_slots_(device.make_stream()),
      from_slots_(device.make_stream()) {}

// Notes that are under way stay lent to the transport forever.
IpcPath::~IpcPath() {
  if (!idle()) keep_for_ever(std::move(lanes_));
}

void IpcPath::connect(const std::string& offer_of_peer) { theirs_ = memory_.open(offer_of_peer); }

void IpcPath::disconnect() {
  from_slots_->synchronize();
  theirs_ = nullptr;
}

std::byte* IpcPath::slot_of(const PeerMemory::Block& block, Channel channel,
                            std::uint64_t number) const {
  return block.data() + (lanes_.index(channel) * kIpcSlots + number % kIpcSlots) * kIpcSlotBytes;
}

Operation IpcPath::send(Channel channel, const MessageHeader& header,
                        std::span<const std::byte> memory) {
  ensure(theirs_ != nullptr, "a path that is not connected");
  Lane& lane = lanes_[channel];
  auto state = std::make_shared<Operation::State>();
  lane.to_fill.push_back({state, header, memory, stream_.record(), 0});
  fill(lane);
  return Operation(std::move(state));
}

Operation IpcPath::receive(Channel channel, std::span<std::byte> memory) {
  ensure(theirs_ != nullptr, "a path that is not connected");
  Lane& lane = lanes_[channel];
  auto state = std::make_shared<Operation::State>();
  Incoming& incoming = lane.incoming.emplace_back(Incoming{state, memory, stream_.record()});
  for (std::uint64_t s = 0; s < slots_of(memory.size()); ++s) {
    Incoming::Slot& slot = incoming.slots.emplace_back();
    slot.message = transport_.receive(peer_, channel,
                                      std::as_writable_bytes(std::span<IpcNote, 1>(&slot.note, 1)));
  }
  return Operation(std::move(state));
}

bool IpcPath::fill(Lane& lane) {
  bool any = false;
  while (!lane.to_fill.empty() && lane.filled - lane.freed < kIpcSlots) {
    Outgoing& next = lane.to_fill.front();
    const std::uint64_t offset = next.filled * kIpcSlotBytes;
    const std::size_t bytes = std::min(kIpcSlotBytes, next.memory.size() - offset);
    if (next.filled == 0) to_slots_->wait(*next.ready);
    const std::uint64_t number = lane.filled++;
    device_.copy(*to_slots_, slot_of(*own_.block, lane.channel, number),
                 next.memory.data() + offset, bytes);
    lane.notes.push_back({{next.memory.size(), offset, number}, next.header, to_slots_->record()});
    if (++next.filled == slots_of(next.memory.size())) {
      lane.notes.back().last_of = std::move(next.state);
      lane.to_fill.pop_front();
    }
    any = true;
  }
  return any;
}

bool IpcPath::send_notes(Lane& lane) {
  bool any = false;
  for (; lane.notes_sent < lane.notes.size(); ++lane.notes_sent) {
    Lane::Noted& noted = lane.notes[lane.notes_sent];
    if (!noted.copied->done()) break;
    noted.message = transport_.send(peer_, lane.channel, noted.header,
                                    std::as_bytes(std::span<const IpcNote, 1>(&noted.note, 1)));
    if (noted.last_of != nullptr) noted.last_of->done = true;
    any = true;
  }
  while (lane.notes_sent > 0 && lane.notes.front().message.done()) {
    lane.notes.pop_front();
    --lane.notes_sent;
  }
  return any;
}

// Copies out of slots whose notes have come.
bool IpcPath::read(Lane& lane) {
  bool any = false;
  for (Incoming& message : lane.incoming) {
    while (message.begun < message.slots.size() && message.slots[message.begun].message.done()) {
      Incoming::Slot& slot = message.slots[message.begun];
      const std::uint64_t offset = message.begun * kIpcSlotBytes;
      if (slot.note.message_bytes != message.memory.size() || slot.note.offset != offset) {
        throw SystemError(format(
            "rank %d, channel %s: byte %llu of a message of %llu bytes came where byte %llu of "
            "%zu was expected",
            peer_.value, to_string(lane.channel), static_cast<unsigned long long>(slot.note.offset),
            static_cast<unsigned long long>(slot.note.message_bytes),
            static_cast<unsigned long long>(offset), message.memory.size()));
      }
      if (message.begun == 0) {
        message.state->header = slot.message.header();
        message.state->header.bytes = message.memory.size();
        from_slots_->wait(*message.free);
      }
      device_.copy(*from_slots_, message.memory.data() + offset,
                   slot_of(*theirs_, lane.channel, slot.note.slot),
                   std::min(kIpcSlotBytes, message.memory.size() - offset));
      slot.copied = from_slots_->record();
      ++message.begun;
      any = true;
    }
    if (message.begun < message.slots.size()) break;
  }
  return any;
}

bool IpcPath::free_slots(Lane& lane) {
  bool any = false;
  while (!lane.incoming.empty()) {
    Incoming& message = lane.incoming.front();
    for (; message.copied < message.begun; ++message.copied) {
      if (!message.slots[message.copied].copied->done()) return any;
      send_word_(to_string(lane.channel));
      any = true;
    }
    if (message.copied < message.slots.size()) return any;
    message.state->done = true;
    lane.incoming.pop_front();
  }
  return any;
}

void IpcPath::take_word(const std::string& word) {
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    if (word != to_string(lane->channel)) continue;
    ensure(lane->freed < lane->filled, "a slot that was freed twice");
    ++lane->freed;
  }
}

bool IpcPath::poll() {
  bool any = false;
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    any |= fill(*lane);
    any |= send_notes(*lane);
    any |= read(*lane);
    any |= free_slots(*lane);
  }
  return any;
}

bool IpcPath::idle() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const std::unique_ptr<Lane>& lane) {
    return lane->to_fill.empty() && lane->notes.empty() && lane->incoming.empty() &&
           lane->freed == lane->filled;
  });
}

}  // namespace hetpipe
