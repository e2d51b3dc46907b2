// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "kernels/device.h"

namespace hetpipe {

// Owner of device memory; knows its device and the stream whose work uses it, and gives the memory
// back in that stream's order. Movable, not copyable; views of it are plain pointers.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Device& device, Stream& stream, std::size_t bytes, MemoryKind kind)
      : device_(&device),
        stream_(&stream),
        bytes_(bytes),
        kind_(kind),
        memory_(bytes == 0 ? nullptr : device.allocate(stream, bytes, kind)) {}
  // Memory of somebody else's that the device reaches, counted like its own and held until then.
  Buffer(Device& device, Stream& stream, std::byte* memory, std::size_t bytes, MemoryKind kind,
         std::shared_ptr<void> owner)
      : device_(&device), stream_(&stream), bytes_(bytes), kind_(kind), memory_(memory) {
    device.memory().take(bytes, kind);
    owner_ = std::move(owner);
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (owner_ != nullptr) {
      device_->memory().give_back(bytes_, kind_);
    } else if (memory_ != nullptr) {
      device_->release(*stream_, memory_, bytes_, kind_);
    }
  }

  std::byte* data() const { return memory_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_);
  }
  std::size_t bytes() const { return bytes_; }
  Stream* stream() const { return stream_; }
  Device* device() const { return device_; }
  explicit operator bool() const { return memory_ != nullptr; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(stream_, other.stream_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
    std::swap(memory_, other.memory_);
    std::swap(owner_, other.owner_);
  }

  Device* device_ = nullptr;
  Stream* stream_ = nullptr;
  std::size_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::workspace;
  std::byte* memory_ = nullptr;
  std::shared_ptr<void> owner_;  // null: the device
};

}  // namespace hetpipe
