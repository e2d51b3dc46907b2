// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "runtime/transport/transport.h"

namespace hetpipe {

// How messages get from the memory of one rank's device into that of another's.
enum class PathKind { staged, ipc, nccl, mpi };
const char* to_string(PathKind kind);

// Whether messages of a channel go between the memories of two devices: others have the host's at
// one end at least.
constexpr bool between_devices(Channel channel) {
  return channel == Channel::forward || channel == Channel::backward ||
         channel == Channel::evaluate || channel == Channel::tied_weights ||
         channel == Channel::tied_gradients || channel == Channel::reduce ||
         channel == Channel::path;
}

// A path around host memory, to one peer and back. Headers still travel through the Transport,
// so that order and sizes are checked there. As in DeviceTransport, whose operations mean the same,
// nothing waits. Channel::path is for trying the path.
class DevicePath {
 public:
  virtual ~DevicePath() = default;
  // What the peer has to know, and what it sent; SystemError if that cannot be used here.
  virtual std::string offer() = 0;
  virtual void connect(const std::string& offer_of_peer) = 0;
  virtual Operation send(Channel channel, const MessageHeader& header,
                         std::span<const std::byte> memory) = 0;
  virtual Operation receive(Channel channel, std::span<std::byte> memory) = 0;
  // A control message of the peer's path, sent separately from the messages.
  virtual void take_word(const std::string& word) = 0;
  virtual bool poll() = 0;  // true when something moved
  virtual bool idle() const = 0;
  // Releases what belongs to the peer; nothing is in transit any more.
  virtual void disconnect() = 0;
};

}  // namespace hetpipe
