// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "kernels/device.h"
#include "runtime/transport/device_paths.h"
#include "runtime/transport/staging.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Messages from and to the memory of one device. Where the host reaches that memory, they are the
// transport's own; elsewhere they take a direct path to the peer where there is one, or are staged
// (runtime/transport/staging.h). Nothing here waits. An
// operation is done when the device's memory is free again (sends; the message may still be on its
// way from the host) or holds the message (receives; any stream may read it).
class DeviceTransport {
 public:
  // `stream`: whose work makes what is sent and uses what has come. All outlive this.
  DeviceTransport(Transport& transport, Device& device, Stream& stream,
                  const StagingLimits& limits = {});
  DeviceTransport(const DeviceTransport&) = delete;
  DeviceTransport& operator=(const DeviceTransport&) = delete;
  ~DeviceTransport();

  // From now on; both ends of a path say so before they send. Outlives this.
  void use(DevicePaths& paths) { paths_ = &paths; }

  // Staging::reserve.
  void reserve(int lanes) {
    if (staging_ != nullptr) staging_->reserve(lanes);
  }

  Device& device() { return device_; }
  Stream& stream() { return stream_; }

  Operation send(Rank to, Channel channel, const MessageHeader& header,
                 std::span<const std::byte> memory);
  Operation receive(Rank from, Channel channel, std::span<std::byte> memory);
  // Of host memory, which stays lent until the operation is done; in order with the sends above.
  // Not on a channel between devices.
  Operation send_from_host(Rank to, Channel channel, const MessageHeader& header,
                           std::span<const std::byte> memory);

  // Moves messages on; called whenever the rank polls, after Transport::progress(). True when
  // something moved, and more is likely to.
  bool poll();
  // No operation of this one is in progress.
  bool idle() const;
  // Page-locked memory in use at once, so far.
  std::size_t most_host_bytes() const;

 private:
  Transport& transport_;
  Device& device_;
  Stream& stream_;
  DevicePaths* paths_ = nullptr;
  std::unique_ptr<Staging> staging_;  // null where the host reaches the memory
};

}  // namespace hetpipe
