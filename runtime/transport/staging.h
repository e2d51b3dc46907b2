// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "kernels/device.h"
#include "runtime/transport/host_pool.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// How much page-locked memory staging takes.
struct StagingLimits {
  std::size_t shared_bytes = std::size_t{64} << 20;
};

// Pieces of messages between a device whose memory no transport reaches and one that is.
inline constexpr std::uint64_t kStagedPieceBytes = std::uint64_t{512} << 10;

// Messages of device memory through page-locked host memory, piece by piece: the first ones are
// on the wire while later ones are still being copied, at both ends.
//
//   send      work enqueued so far -> copy a piece to the host -> transport
//   receive   transport -> copy a piece to the device, behind the work enqueued before the receive
//
// Copies run on two streams of their own, one each way, in parallel to compute; nothing here waits.
//
// Memory is bounded. Messages to or from one peer on one channel are a lane. Each lane has
// kOwnPieces pieces of its own; what more it has under way it takes from a budget that all share,
// at most kMostPieces, and for a receive only once the message has begun to come. Where the budget
// is used up, senders wait.
//
// This cannot deadlock: a lane moves on with only its own pieces, whatever others hold. A
// piece of its own that is being sent comes back once the peer takes it, which its lane does as
// soon as the message is awaited there; one that is being received, once the peer's lane has sent
// it. Copies wait for compute that was enqueued before, never for a message. So each message goes
// through if it would with memory for all, only slower.
class Staging {
 public:
  // Work of `stream` makes what is sent and uses what has come. All outlive this.
  Staging(Transport& transport, Device& device, Stream& stream, const StagingLimits& limits);
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  // What is in transit stays lent to the transport forever, so its memory is not given back.
  ~Staging();

  Operation send(Rank to, Channel channel, const MessageHeader& header,
                 std::span<const std::byte> memory);
  Operation receive(Rank from, Channel channel, std::span<std::byte> memory);
  // Makes the page-locked memory of so many lanes, each way, and what all share, beforehand.
  void reserve(int lanes);
  bool poll();  // true when something moved
  bool idle() const { return sends_.empty() && receives_.empty(); }
  std::size_t most_host_bytes() const { return pool_.most_lent(); }

 private:
  struct Lane;
  class Outgoing;
  class Incoming;
  template <class Message>
  struct UnderWay {
    std::shared_ptr<Message> message;
    Operation operation;  // the transport's
  };

  Lane& lane(std::map<std::pair<Rank, Channel>, std::unique_ptr<Lane>>& lanes, Rank peer,
             Channel channel);
  bool may_take(const Lane& lane, std::size_t bytes, bool begun) const;
  bool fill(Lane& lane);

  Transport& transport_;
  Device& device_;
  Stream& stream_;
  StagingLimits limits_;
  std::unique_ptr<Stream> to_host_;
  std::unique_ptr<Stream> to_device_;
  HostPool pool_;
  std::map<std::pair<Rank, Channel>, std::unique_ptr<Lane>> lanes_out_;
  std::map<std::pair<Rank, Channel>, std::unique_ptr<Lane>> lanes_in_;
  std::deque<UnderWay<Outgoing>> sends_;
  std::deque<UnderWay<Incoming>> receives_;
};

}  // namespace hetpipe
