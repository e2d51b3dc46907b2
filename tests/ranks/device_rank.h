// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "kernels/buffer.h"
#include "kernels/devices.h"
#include "runtime/transport/device_transport.h"
#include "tests/main/patience.h"

namespace hetpipe {

using Bytes = std::vector<std::byte>;

// Content that no other key has.
Bytes content(std::uint64_t key, std::size_t size);

// The rank so far round the ring.
Rank neighbour(const Transport& transport, int distance);

// A rank with a device whose memory the host does not reach. trial_seconds: of its paths.
struct DeviceRank {
  explicit DeviceRank(Transport& the_transport, const StagingLimits& limits = {},
                      const char* name = "offload", double trial_seconds = test::patience(20));

  // Later than it returns, as all work.
  Buffer filled(Bytes values);
  Bytes read(const Buffer& buffer);
  void poll();
  void wait(const std::function<bool()>& ready, const char* what);
  // Everything of this rank has left, and all ranks have come here.
  void leave();

  Transport& transport;
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<PeerMemory> peer_memory;
  DevicePaths paths;  // who uses them tells `messages`
  DeviceTransport messages;
  std::deque<Bytes> kept{};
};

using Make = DevicePaths::Make;

// All ranks try a path to each of the others.
void try_paths(DeviceRank& rank, PathKind kind, const std::function<Make(Rank peer)>& make);

// Between all ranks on all channels, all at once, around the borders of slots; push is staged.
void exchange_messages(DeviceRank& rank);

}  // namespace hetpipe
