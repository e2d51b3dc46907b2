// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/memory_pool.h"

#include <algorithm>
#include <bit>
#include <new>

namespace hetpipe {
namespace {

constexpr std::size_t kAlignment = 64;

}  // namespace

std::size_t MemoryPool::class_of(std::size_t bytes) {
  const std::size_t step = std::max(kAlignment, std::bit_floor(bytes) / 8);
  return (std::max<std::size_t>(bytes, 1) + step - 1) / step * step;
}

std::byte* MemoryPool::take(std::size_t bytes) {
  const std::size_t size = class_of(bytes);
  std::vector<std::byte*>& blocks = free_[size];
  if (!blocks.empty()) {
    std::byte* block = blocks.back();
    blocks.pop_back();
    return block;
  }
  // Room for this block's return, so that giving back never allocates.
  if (blocks.capacity() == 0) blocks.reserve(16);
  void* block = ::operator new (size, std::align_val_t{kAlignment}, std::nothrow);
  if (block == nullptr) {
    trim();
    block = ::operator new (size, std::align_val_t{kAlignment}, std::nothrow);
  }
  return static_cast<std::byte*>(block);
}

void MemoryPool::give_back(std::byte* block, std::size_t bytes) noexcept {
  std::vector<std::byte*>& blocks = free_.find(class_of(bytes))->second;
  if (blocks.size() == blocks.capacity()) {
    try {
      blocks.reserve(2 * blocks.size());
    } catch (const std::bad_alloc&) {  // no room to remember it: the block itself goes
      ::operator delete (block, std::align_val_t{kAlignment});
      return;
    }
  }
  blocks.push_back(block);
}

void MemoryPool::trim() noexcept {
  for (auto& [size, blocks] : free_) {
    for (std::byte* block : blocks) ::operator delete (block, std::align_val_t{kAlignment});
    blocks.clear();
  }
}

}  // namespace hetpipe
