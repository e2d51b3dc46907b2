// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/device_transport.h"

#include "base/error.h"

namespace hetpipe {

DeviceTransport::DeviceTransport(Transport& transport, Device& device, Stream& stream,
                                 const StagingLimits& limits)
    : transport_(transport), device_(device), stream_(stream) {
  if (!device.host_memory()) {
    staging_ = std::make_unique<Staging>(transport, device, stream, limits);
  }
}

DeviceTransport::~DeviceTransport() = default;

Operation DeviceTransport::send(Rank to, Channel channel, const MessageHeader& header,
                                std::span<const std::byte> memory) {
  if (staging_ == nullptr) return transport_.send(to, channel, header, memory);
  DevicePath* const path = paths_ != nullptr ? paths_->path(to, channel) : nullptr;
  if (path != nullptr) return path->send(channel, header, memory);
  return staging_->send(to, channel, header, memory);
}

Operation DeviceTransport::send_from_host(Rank to, Channel channel, const MessageHeader& header,
                                          std::span<const std::byte> memory) {
  ensure(!between_devices(channel), "host memory where the peer may take a direct path");
  return transport_.send(to, channel, header, memory);  // which keeps the order
}

Operation DeviceTransport::receive(Rank from, Channel channel, std::span<std::byte> memory) {
  if (staging_ == nullptr) return transport_.receive(from, channel, memory);
  DevicePath* const path = paths_ != nullptr ? paths_->path(from, channel) : nullptr;
  if (path != nullptr) return path->receive(channel, memory);
  return staging_->receive(from, channel, memory);
}

bool DeviceTransport::poll() {
  bool any = paths_ != nullptr && paths_->poll();
  any |= staging_ != nullptr && staging_->poll();
  return any;
}

bool DeviceTransport::idle() const {
  return (paths_ == nullptr || paths_->idle()) && (staging_ == nullptr || staging_->idle());
}

std::size_t DeviceTransport::most_host_bytes() const {
  return staging_ == nullptr ? 0 : staging_->most_host_bytes();
}

}  // namespace hetpipe
