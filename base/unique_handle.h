// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

// The one owner of a raw handle of a C library (HDF5 id, MPI communicator, file descriptor).
// Traits: `using Handle`; `static Handle empty()`; `static void close(Handle) noexcept`, which logs
// a failure and continues, as destructors do.
namespace hetpipe {

template <class Traits>
class UniqueHandle {
 public:
  using Handle = typename Traits::Handle;

  UniqueHandle() = default;
  explicit UniqueHandle(Handle handle) : handle_(handle) {}
  UniqueHandle(UniqueHandle&& other) noexcept
      : handle_(std::exchange(other.handle_, Traits::empty())) {}
  UniqueHandle& operator=(UniqueHandle&& other) noexcept {
    if (this != &other) {
      reset();
      handle_ = std::exchange(other.handle_, Traits::empty());
    }
    return *this;
  }
  UniqueHandle(const UniqueHandle&) = delete;
  UniqueHandle& operator=(const UniqueHandle&) = delete;
  ~UniqueHandle() { reset(); }

  Handle get() const { return handle_; }
  explicit operator bool() const { return handle_ != Traits::empty(); }
  [[nodiscard]] Handle release() { return std::exchange(handle_, Traits::empty()); }
  void reset() {
    if (handle_ != Traits::empty()) {
      Traits::close(std::exchange(handle_, Traits::empty()));
    }
  }

 private:
  Handle handle_ = Traits::empty();
};

}  // namespace hetpipe
