// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/memory_pool.h"

#include <sys/mman.h>

#include <new>

#include "kernels/size_class.h"

namespace hetpipe {
namespace {

constexpr std::size_t kPoolAlignment = 64;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::align_val_t alignment_of(std::size_t size) {
  return std::align_val_t{size >= kHugePage ? kHugePage : kPoolAlignment};
}

// Large blocks ask for huge pages: matrix products that walk them miss the address cache less. It
// is a wish, not a need, so its failure is of no concern.
std::byte* fresh(std::size_t size) {
  void* block = ::operator new(size, alignment_of(size), std::nothrow);
  if (block != nullptr && size >= kHugePage) madvise(block, size, MADV_HUGEPAGE);
  return static_cast<std::byte*>(block);
}

void free_block(std::byte* block, std::size_t size) noexcept {
  ::operator delete(block, alignment_of(size));
}

}  // namespace

std::size_t MemoryPool::class_of(std::size_t bytes) { return size_class(bytes, kPoolAlignment); }

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
  std::byte* block = fresh(size);
  if (block == nullptr) {
    trim();
    block = fresh(size);
  }
  return block;
}

void MemoryPool::give_back(std::byte* block, std::size_t bytes) noexcept {
  std::vector<std::byte*>& blocks = free_.find(class_of(bytes))->second;
  if (blocks.size() == blocks.capacity()) {
    try {
      blocks.reserve(2 * blocks.size());
    } catch (const std::bad_alloc&) {  // no room to remember it: the block itself goes
      free_block(block, class_of(bytes));
      return;
    }
  }
  blocks.push_back(block);
}

void MemoryPool::trim() noexcept {
  for (auto& [size, blocks] : free_) {
    for (std::byte* block : blocks) free_block(block, size);
    blocks.clear();
  }
}

}  // namespace hetpipe
