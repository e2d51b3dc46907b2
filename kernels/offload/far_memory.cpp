// SPDX-License-Identifier: Apache-2.0
#include "kernels/offload/far_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr std::size_t kSize = std::size_t{1} << 36;  // of addresses; pages come when touched

}  // namespace

FarMemory::FarMemory() : size_(kSize) {
  const int file = memfd_create("hetpipe-offload", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, static_cast<off_t>(size_)) != 0) {
    throw SystemError("offload device: no memory file of its own");
  }
  void* const far = mmap(nullptr, size_, PROT_NONE, MAP_SHARED | MAP_NORESERVE, file, 0);
  void* const near =
      mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  if (far == MAP_FAILED || near == MAP_FAILED) {
    throw SystemError("offload device: no room for two windows on its memory");
  }
  far_ = static_cast<std::byte*>(far);
  near_ = static_cast<std::byte*>(near);
}

FarMemory::~FarMemory() {
  munmap(far_, size_);
  munmap(near_, size_);
}

std::byte* FarMemory::add(int file, std::size_t bytes) {
  const std::size_t count = added_count_.load(std::memory_order_relaxed);
  if (count == added_.size()) return nullptr;
  void* const far = mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0);
  void* const near = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (far == MAP_FAILED || near == MAP_FAILED) return nullptr;
  added_[count] = {static_cast<std::byte*>(far), static_cast<std::byte*>(near), bytes};
  added_count_.store(count + 1, std::memory_order_release);
  return added_[count].far;
}

// Its entry stays: the far window keeps its addresses, so that nothing else comes to lie there.
void FarMemory::remove(std::byte* far) {
  for (Window& window : added_) {
    if (window.far == far) munmap(window.near, window.size);
  }
}

std::byte* FarMemory::take(std::size_t bytes) {
  if (bytes > size_ - used_) return nullptr;
  std::byte* const block = far_ + used_;
  used_ += bytes;
  return block;
}

}  // namespace hetpipe
