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

void HostPool::reserve(std::size_t bytes, int blocks) {
  const std::size_t size = class_of(bytes);
  std::vector<std::byte*>& free = free_[size];
  while (free.size() < static_cast<std::size_t>(blocks)) {
    free.push_back(device_.allocate_host(size));
  }
}

std::byte* HostPool::take(std::size_t bytes) {
  const std::size_t size = class_of(bytes);
  auto found = free_.lower_bound(size);
  while (found != free_.end() && found->second.empty()) ++found;
  std::byte* block = nullptr;
  if (found == free_.end()) {
    block = device_.allocate_host(size);
  } else {
    block = found->second.back();
    found->second.pop_back();
    if (found->first != size) larger_[block] = found->first;
  }
  lent_ += size;
  most_lent_ = std::max(most_lent_, lent_);
  return block;
}

void HostPool::give_back(std::byte* memory, std::size_t bytes) {
  const auto larger = larger_.extract(memory);
  free_[larger ? larger.mapped() : class_of(bytes)].push_back(memory);
  lent_ -= class_of(bytes);
}

}  // namespace hetpipe
