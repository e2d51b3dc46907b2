// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport/host_pool.h"

#include "kernels/size_class.h"

namespace hetpipe {

HostPool::~HostPool() {
  for (const auto& [size, blocks] : free_) {
    for (std::byte* block : blocks) device_.release_host(block, size);
  }
}

// At most an eighth larger, or 4 KiB.
std::size_t HostPool::class_of(std::size_t bytes) { return size_class(bytes, 4096); }

std::byte* HostPool::take(std::size_t bytes) {
  const std::size_t size = class_of(bytes);
  std::vector<std::byte*>& blocks = free_[size];
  std::byte* block = nullptr;
  if (blocks.empty()) {
    block = device_.allocate_host(size);
  } else {
    block = blocks.back();
    blocks.pop_back();
  }
  lent_ += size;
  most_lent_ = std::max(most_lent_, lent_);
  return block;
}

void HostPool::give_back(std::byte* memory, std::size_t bytes) {
  free_[class_of(bytes)].push_back(memory);
  lent_ -= class_of(bytes);
}

}  // namespace hetpipe
