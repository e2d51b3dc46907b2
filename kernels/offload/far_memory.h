// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <type_traits>

#include "kernels/memory_account.h"
#include "kernels/peer_memory.h"

namespace hetpipe {

// One stretch of memory seen through two windows: callers hold addresses of the far one, which can
// be neither read nor written; near() is the same byte where it can.
class FarMemory {
 public:
  FarMemory();
  FarMemory(const FarMemory&) = delete;
  FarMemory& operator=(const FarMemory&) = delete;
  ~FarMemory();

  // Never given back. Null when there is no room left.
  std::byte* take(std::size_t bytes);

  // Another stretch behind two windows, of a file: memory shared with other processes. Returns the
  // far one. Null when it cannot be mapped.
  std::byte* add(int file, std::size_t bytes);
  void remove(std::byte* far);

  // Other addresses stay as they are.
  template <class T>
  T* near(T* address) const {
    using Byte = std::conditional_t<std::is_const_v<T>, const std::byte, std::byte>;
    const auto* const byte = reinterpret_cast<const std::byte*>(address);
    if (byte >= far_ && byte < far_ + size_) {
      return reinterpret_cast<T*>(reinterpret_cast<Byte*>(address) - far_ + near_);
    }
    const std::size_t count = added_count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < count; ++i) {
      const Window& window = added_[i];
      if (byte < window.far || byte >= window.far + window.size) continue;
      return reinterpret_cast<T*>(reinterpret_cast<Byte*>(address) - window.far + window.near);
    }
    return address;
  }

 private:
  struct Window {
    std::byte* far = nullptr;
    std::byte* near = nullptr;
    std::size_t size = 0;
  };

  std::array<Window, 256> added_{};
  std::atomic<std::size_t> added_count_{0};  // written once each is there
  std::size_t size_ = 0;
  std::size_t used_ = 0;  // from the start
  std::byte* far_ = nullptr;
  std::byte* near_ = nullptr;
};

// Shared memory as PeerMemory: like the rest of the device's, no host may touch it.
std::unique_ptr<PeerMemory> make_far_peer_memory(FarMemory& memory, MemoryAccount& account);

}  // namespace hetpipe
