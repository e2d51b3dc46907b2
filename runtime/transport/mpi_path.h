// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>

#include "kernels/device.h"
#include "runtime/transport/device_path.h"

namespace hetpipe {

// The Transport itself, where it takes addresses of device memory: messages are handed to it once
// they are computed, receives once their memory is free, in the order of their channel.
class MpiPath final : public DevicePath {
 public:
  // Both outlive this.
  MpiPath(Transport& transport, Rank peer, Stream& stream)
      : transport_(transport), peer_(peer), stream_(stream) {}

  std::string offer() override { return ""; }
  void connect(const std::string&) override {}
  Operation send(Channel channel, const MessageHeader& header,
                 std::span<const std::byte> memory) override;
  Operation receive(Channel channel, std::span<std::byte> memory) override;
  void take_word(const std::string&) override {}
  bool poll() override;
  bool idle() const override { return messages_.empty(); }
  void disconnect() override {}

 private:
  struct Message {
    bool sends = false;
    Channel channel = Channel::forward;
    MessageHeader header;
    std::span<std::byte> memory;   // sends only read it
    std::unique_ptr<Event> ready;  // computed, or free
    std::shared_ptr<Operation::State> state;
    Operation operation{};  // the transport's, once it has the message
  };
  Operation add(bool sends, Channel channel, const MessageHeader& header,
                std::span<std::byte> memory);

  Transport& transport_;
  Rank peer_;
  Stream& stream_;
  // In the order of the stream's work, so that none behind one that is not ready is ready.
  std::deque<Message> messages_;
  std::size_t handed_over_ = 0;  // the first so many of those
};

}  // namespace hetpipe
