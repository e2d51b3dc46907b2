// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "kernels/device.h"

namespace hetpipe {

// Host memory of a device (Device::allocate_host), kept for reuse: page-locking it costs more than
// most messages. For one thread.
class HostPool {
 public:
  explicit HostPool(Device& device) : device_(device) {}
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;
  ~HostPool();  // what is lent stays lent forever

  std::byte* take(std::size_t bytes);
  void give_back(std::byte* memory, std::size_t bytes);  // `bytes` as taken
  std::size_t lent() const { return lent_; }             // bytes
  std::size_t most_lent() const { return most_lent_; }

 private:
  static std::size_t class_of(std::size_t bytes);

  Device& device_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::size_t lent_ = 0;
  std::size_t most_lent_ = 0;
};

}  // namespace hetpipe
