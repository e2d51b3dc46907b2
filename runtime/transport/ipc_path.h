// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "kernels/device.h"
#include "kernels/peer_memory.h"
#include "runtime/transport/channel_lanes.h"

namespace hetpipe {

inline constexpr std::size_t kIpcSlotBytes = std::size_t{512} << 10;
inline constexpr int kIpcSlots = 4;  // of each channel

// Between two processes of one machine: each shares a block of its device's memory, cut into slots,
// and the other's device copies out of it.
//
//   sender:    memory -> slot, behind the work enqueued before the send; then a note to the peer
//   receiver:  slot of the peer -> memory, behind the work before the receive; then a word back
//
// A note is a message of the Transport, one for each slot that is filled; messages longer than a
// slot take several, and the first are read while later ones are written. A word says that the
// oldest slot of a channel may be filled again.
//
// No deadlock: a channel has slots of its own, and they are filled, read and freed in the order of
// its messages. A filled one is read once its message is awaited by the peer, whatever the other
// channels do.
class IpcPath : public DevicePath {
 public:
  using SendWord = std::function<void(const std::string&)>;
  // All outlive this. SystemError if the device cannot share memory.
  IpcPath(Transport& transport, Rank peer, Device& device, Stream& stream, PeerMemory& memory,
          SendWord send_word);
  IpcPath(const IpcPath&) = delete;
  IpcPath& operator=(const IpcPath&) = delete;
  ~IpcPath() override;

  std::string offer() override { return own_.handle; }
  void connect(const std::string& offer_of_peer) override;
  Operation send(Channel channel, const MessageHeader& header,
                 std::span<const std::byte> memory) override;
  Operation receive(Channel channel, std::span<std::byte> memory) override;
  void take_word(const std::string& word) override;
  bool poll() override;
  bool idle() const override;
  void disconnect() override;

 private:
  struct Lane;
  struct Outgoing;
  struct Incoming;

  std::byte* slot_of(const PeerMemory::Block& block, Channel channel, std::uint64_t number) const;
  bool fill(Lane& lane);
  bool send_notes(Lane& lane);
  bool read(Lane& lane);
  bool free_slots(Lane& lane);

  Transport& transport_;
  Rank peer_;
  Device& device_;
  Stream& stream_;
  PeerMemory& memory_;
  SendWord send_word_;
  PeerMemory::Shared own_;
  std::unique_ptr<PeerMemory::Block> theirs_;
  ChannelLanes<Lane> lanes_;
  std::unique_ptr<Stream> to_slots_;  // these die first: their copies use the blocks
  std::unique_ptr<Stream> from_slots_;
};

}  // namespace hetpipe
