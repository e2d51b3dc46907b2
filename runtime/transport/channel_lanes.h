// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.h"
#include "runtime/transport/device_path.h"

namespace hetpipe {

inline constexpr int kChannelLanes = [] {
  int count = 0;
  for (int c = 0; c < kChannels; ++c) count += between_devices(static_cast<Channel>(c)) ? 1 : 0;
  return count;
}();

// A path's state of each channel that goes between the memories of two devices. Lane has a
// constructor of a Channel, and says which one it is of: `channel`.
template <class Lane>
class ChannelLanes {
 public:
  ChannelLanes() {
    for (int c = 0; c < kChannels; ++c) {
      const auto channel = static_cast<Channel>(c);
      if (between_devices(channel)) lanes_.push_back(std::make_unique<Lane>(channel));
    }
  }

  Lane& operator[](Channel channel) const { return *lanes_[index(channel)]; }
  std::size_t index(Channel channel) const {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i]->channel == channel) return i;
    }
    ensure(false, "a channel with the host's memory at one end");
    return 0;
  }
  auto begin() const { return lanes_.begin(); }
  auto end() const { return lanes_.end(); }

 private:
  std::vector<std::unique_ptr<Lane>> lanes_;
};

}  // namespace hetpipe
