// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <unordered_map>
#include <vector>

// Blocks of host memory, 64-byte aligned, kept for reuse by size class: fresh pages cost more than
// most kernels that fill them. For one thread.
namespace hetpipe {

class MemoryPool {
 public:
  MemoryPool() = default;
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;
  ~MemoryPool() { trim(); }

  // Null when the machine has no memory left, even after the pool gave its free blocks back.
  std::byte* take(std::size_t bytes);
  void give_back(std::byte* block, std::size_t bytes) noexcept;  // `bytes` as taken
  void trim() noexcept;                                          // frees what is not in use

  // The size of the blocks that serve `bytes`: at most an eighth larger, or 64.
  static std::size_t class_of(std::size_t bytes);

 private:
  std::unordered_map<std::size_t, std::vector<std::byte*>> free_;
};

}  // namespace hetpipe
