// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "kernels/device.h"
#include "runtime/transport/channel_lanes.h"
#include "runtime/transport/nccl_module.h"

namespace hetpipe {

// NCCL between two cards: one link each way, over which messages of all channels go one after
// another.
//
//   receiver:  awaits a message on a channel, its memory is free        -> a word to the sender
//   sender:    knows it, and the message is computed            -> ncclSend, and a note
//   receiver:  the note tells the message's number on the link          -> ncclRecv, in that order
//
// So nothing is sent before it is awaited, and nothing is received before it is sent: no
// kernel of NCCL's waits on a card for what may be far away, and the order on the link is the same
// at both ends whatever the order on the channels is.
class NcclPath final : public DevicePath {
 public:
  using SendWord = std::function<void(const std::string&)>;
  // What the links are on: the stream's GPU, and whose account has NCCL's buffers (as paths).
  struct On {
    int gpu = 0;
    MemoryAccount& memory;
    int blocks = kNcclBlocks;
  };
  // The lower rank names the communicators. All outlive this.
  NcclPath(Transport& transport, Rank peer, Stream& stream, const NcclModule& module, const On& on,
           SendWord send_word);
  NcclPath(const NcclPath&) = delete;
  NcclPath& operator=(const NcclPath&) = delete;
  ~NcclPath() override;

  std::string offer() override;
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

  bool send_awaited(Lane& lane);
  bool tell_awaited(Lane& lane);
  bool receive_next();
  bool finish();

  Transport& transport_;
  Rank peer_;
  Stream& stream_;
  const NcclModule& module_;
  On on_;
  std::size_t taken_ = 0;  // of the account
  SendWord send_word_;
  std::string ids_;  // of both links; the lower rank's
  std::unique_ptr<NcclLink> out_, in_;
  ChannelLanes<Lane> lanes_;
  std::uint64_t sent_ = 0;      // messages over the link, ever
  std::uint64_t received_ = 0;  // likewise
  std::deque<std::shared_ptr<Outgoing>> leaving_;
  std::deque<std::shared_ptr<Incoming>> arriving_;
};

}  // namespace hetpipe
