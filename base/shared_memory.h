// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetpipe {

// Memory that processes of one machine share: one makes it, others open it by its name, to read. No
// file system knows it, and it is gone with the last process that has it, however that ends.
class SharedMemory {
 public:
  // Means something to processes of the same machine, user and process namespace, for as long as
  // its maker has the memory.
  struct Name {
    std::int32_t process = 0;
    std::int32_t descriptor = -1;
    std::uint64_t file_system = 0;  // with the number, no other file's
    std::uint64_t number = 0;
    std::uint64_t bytes = 0;
  };

  SharedMemory() = default;
  explicit SharedMemory(std::size_t bytes);  // zeros; SystemError
  // SystemError where it cannot be opened, or is no more what was named.
  static SharedMemory open(const Name& name);
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    SharedMemory moved(static_cast<SharedMemory&&>(other));
    swap(moved);
    return *this;
  }
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

  std::byte* data() const { return memory_; }
  std::size_t bytes() const { return static_cast<std::size_t>(name_.bytes); }
  const Name& name() const { return name_; }

 private:
  void swap(SharedMemory& other) noexcept;

  std::byte* memory_ = nullptr;
  int descriptor_ = -1;  // the maker's
  Name name_;
};

}  // namespace hetpipe
