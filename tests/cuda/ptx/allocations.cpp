// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <optional>

#include "tests/cuda/ptx/attach.h"

// For tests whose arrays are the host's: every allocation is known, so that kernels that run from
// PTX (HETPIPE_PTX) are held to it. Linked into such programs; does nothing without PTX.
namespace hetpipe::cuda::ptx {
namespace {

template <class T>
struct Malloc {  // what the table itself takes is not in it
  using value_type = T;
  Malloc() = default;
  template <class U>
  Malloc(const Malloc<U>&) {}  // NOLINT: as allocators are
  T* allocate(std::size_t count) { return static_cast<T*>(std::malloc(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t) { std::free(memory); }
  bool operator==(const Malloc&) const { return true; }
};
using Table = std::map<std::uintptr_t, std::size_t, std::less<>,
                       Malloc<std::pair<const std::uintptr_t, std::size_t>>>;

bool is_kept() {
  static const bool kept = std::getenv("HETPIPE_PTX") != nullptr;
  return kept;
}
std::mutex mutex;
Table& table() {
  static Table* const all = new (std::malloc(sizeof(Table))) Table;  // outlives every static
  return *all;
}

std::optional<Region> find(std::uint64_t address) {
  const std::lock_guard lock(mutex);
  auto at = table().upper_bound(address);
  if (at == table().begin()) return std::nullopt;
  --at;
  return Region{at->first, at->second};
}

const bool attached = attach(&find);

void* take(std::size_t bytes, std::size_t alignment) {
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* const memory = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                           ? std::malloc(bytes == 0 ? 1 : bytes)
                           : std::aligned_alloc(alignment, rounded);
  if (memory == nullptr) throw std::bad_alloc();
  if (is_kept()) {
    const std::lock_guard lock(mutex);
    table()[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  }
  return memory;
}
void give_back(void* memory) {
  if (memory != nullptr && is_kept()) {
    const std::lock_guard lock(mutex);
    table().erase(reinterpret_cast<std::uintptr_t>(memory));
  }
  std::free(memory);
}

}  // namespace
}  // namespace hetpipe::cuda::ptx

using hetpipe::cuda::ptx::give_back;
using hetpipe::cuda::ptx::take;

void* operator new(std::size_t bytes) { return take(bytes, 1); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { give_back(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { give_back(memory); }
