// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/batch_memory.h"

#include <mutex>

#include "runtime/transport/host_pool.h"

namespace hetpipe {

struct BatchMemory::Shared {
  explicit Shared(Device& device) : pool(device) {}
  std::mutex mutex;
  HostPool pool;  // guarded by mutex
};

BatchMemory::BatchMemory(Device& device) : shared_(std::make_shared<Shared>(device)) {}

std::shared_ptr<std::byte[]> BatchMemory::operator()(std::size_t bytes) const {
  std::byte* taken = nullptr;
  {
    const std::lock_guard lock(shared_->mutex);
    taken = shared_->pool.take(bytes);
  }
  return {taken, [shared = shared_, bytes](std::byte* memory) {
            const std::lock_guard lock(shared->mutex);
            shared->pool.give_back(memory, bytes);
          }};
}

void BatchMemory::reserve(std::size_t bytes, int blocks) const {
  const std::lock_guard lock(shared_->mutex);
  shared_->pool.reserve(bytes, blocks);
}

}  // namespace hetpipe
