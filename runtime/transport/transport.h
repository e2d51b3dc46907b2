// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "runtime/transport/link_emulation.h"

// Moving bytes between ranks. Everything after start-up is nonblocking: an operation is posted and
// polled; a caller that waits gives a deadline and a name for what it waits for
// (runtime/transport/wait.h).
namespace hetpipe {

// Each channel is a stream of its own between any two ranks: messages of one channel arrive in the
// order sent.
enum class Channel {
  control,
  forward,
  backward,
  evaluate,
  tied_weights,
  tied_gradients,
  reduce,
  push,
  pull,
  checkpoint,
  path
};
inline constexpr int kChannels = 11;
const char* to_string(Channel channel);

// Travels before every payload. Which message it is, and of what, is the caller's: kind and fields
// are written and read as one of its structs (runtime/transport/typed_message.h).
struct MessageHeader {
  static constexpr std::size_t kFieldBytes = 24;
  std::int32_t kind = 0;
  std::array<std::byte, kFieldBytes> fields{};
  std::uint64_t bytes = 0;      // of the payload; set by the transport
  std::uint64_t sequence = 0;   // of (from, to, channel), from 0; set and checked by the transport
  std::int64_t deliver_ns = 0;  // emulated links: not visible to the receiver before (0: at once)
  std::int64_t sent_ns = 0;     // when the sender posted it; set by the transport
};

// A posted send or receive. Copyable view; dropping it does not cancel.
class Operation {
 public:
  struct State {
    virtual ~State() = default;
    bool done = false;     // set by Transport::progress()
    MessageHeader header;  // of a finished receive
  };
  Operation() = default;
  explicit Operation(std::shared_ptr<State> state) : state_(std::move(state)) {}
  explicit operator bool() const { return state_ != nullptr; }
  bool done() const { return state_->done; }
  const MessageHeader& header() const { return state_->header; }

 private:
  std::shared_ptr<State> state_;
};

// A payload that is nowhere in one piece: its memory is requested piece by piece, in order, while
// the transport moves on. A piece is `bytes` long from `offset`; all but a payload's last one have
// the size that Transport::piece_bytes() says.
class PayloadPieces {
 public:
  virtual ~PayloadPieces() = default;
  // Where the next piece lies (sends) or may lie (receives); lent until finished(). Null: not yet,
  // and the transport asks again. What is behind it in its stream waits with it.
  virtual std::byte* next(std::uint64_t offset, std::uint64_t bytes) = 0;
  // The transport needs the piece no more (sends) or it has arrived (receives); in order.
  virtual void finished(std::uint64_t offset, std::uint64_t bytes) = 0;
};

struct ControlMessage {
  Rank from;
  MessageHeader header;
  std::vector<std::byte> payload;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual Rank rank() const = 0;
  virtual int ranks() const = 0;

  // From now on, messages over emulated links (all channels but control) carry a time before which
  // the receiver does not see them. Called by every rank with the same table, after start-up.
  virtual void emulate_links(LinkTable table, std::shared_ptr<LinkClock> clock) = 0;

  // Posts a send; the payload's memory must stay untouched until the operation is done, and after a
  // failure until the process ends: what has begun cannot be cancelled. To the own rank too. Not on
  // Channel::control.
  virtual Operation send(Rank to, Channel channel, const MessageHeader& header,
                         std::span<const std::byte> payload) = 0;
  // Posts the receive of the next message on this channel from this rank; its memory is lent like a
  // send's. The payload must have exactly this size: progress() throws SystemError naming both
  // sizes otherwise. Receives of one channel from one rank are done in the order posted. Payloads
  // past 512 MiB are split on the wire.
  virtual Operation receive(Rank from, Channel channel, std::span<std::byte> payload) = 0;
  // The same for payloads in pieces; the other end may have its payload in one. Their time of
  // sending is when the first piece was there.
  virtual Operation send(Rank to, Channel channel, const MessageHeader& header, std::uint64_t bytes,
                         std::shared_ptr<PayloadPieces> pieces) = 0;
  virtual Operation receive(Rank from, Channel channel, std::uint64_t bytes,
                            std::shared_ptr<PayloadPieces> pieces) = 0;

  // From now on payloads to and from this rank go in pieces of this size on the channels that carry
  // memory of devices (all but control and checkpoint). Both ends say the same, before they post
  // anything on these channels.
  virtual void set_piece_bytes(Rank peer, std::uint64_t bytes) = 0;
  virtual std::uint64_t piece_bytes(Rank peer, Channel channel) const = 0;

  // Small messages (at most 1 MiB) on Channel::control, copied: send and forget, receive from
  // anyone in order of arrival. No posted receives on this channel.
  virtual void send_control(Rank to, const MessageHeader& header,
                            std::span<const std::byte> payload = {}) = 0;
  virtual std::optional<ControlMessage> try_receive_control() = 0;

  // Moves everything on; never blocks. Throws SystemError when a peer failed.
  virtual void progress() = 0;
  // All sends posted by this rank are complete (control included).
  virtual bool idle() const = 0;

  // Start-up and shutdown only, called by all ranks together: every rank's bytes, by rank.
  virtual std::vector<std::vector<std::byte>> exchange(std::span<const std::byte> mine) = 0;

  // Ends the whole job at once with this exit code; the message has been printed. Does not return
  // in MPI; in threads the other ranks' next progress() throws.
  virtual void abort(int exit_code) = 0;
};

}  // namespace hetpipe
