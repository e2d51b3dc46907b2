// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "kernels/device.h"

namespace hetpipe {

// Host memory of a device (Device::allocate_host), kept for reuse: page-locking it costs more than
// most messages, and may wait for all that the device is doing. For one thread.
class HostPool {
 public:
  explicit HostPool(Device& device) : device_(device) {}
  HostPool(const HostPool&) = delete;
  HostPool& operator=(const HostPool&) = delete;
  ~HostPool();  // what is lent stays lent forever

  // Makes what is missing to so many free blocks of this size, so that take() need not.
  void reserve(std::size_t bytes, int blocks);
  // Of its size, else the smallest larger one that is free, else a new one.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* memory, std::size_t bytes);  // `bytes` as taken
  std::size_t lent() const { return lent_; }             // bytes
  std::size_t most_lent() const { return most_lent_; }

 private:
  static std::size_t class_of(std::size_t bytes);

  Device& device_;
  std::map<std::size_t, std::vector<std::byte*>> free_;
  std::map<const std::byte*, std::size_t> larger_;  // lent for less than they are
  std::size_t lent_ = 0;
  std::size_t most_lent_ = 0;
};

}  // namespace hetpipe
