// SPDX-License-Identifier: Apache-2.0
#include "base/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/huge_pages.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// Where huge pages of the file can be mapped as such: at a multiple of their size.
std::byte* map(int descriptor, std::uint64_t bytes, int access, const char* whose) {
  const auto fail = [&] {
    throw SystemError(format("mapping %s of shared memory %s: %s",
                             format_bytes(static_cast<double>(bytes)).c_str(), whose,
                             std::strerror(errno)));
  };
  const std::size_t around = bytes + kHugePage;
  void* const reserved =
      ::mmap(nullptr, around, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) fail();
  const auto first = reinterpret_cast<std::uintptr_t>(reserved);
  const std::uintptr_t place = (first + kHugePage - 1) / kHugePage * kHugePage;
  void* const memory =
      ::mmap(reinterpret_cast<void*>(place), bytes, access, MAP_SHARED | MAP_FIXED, descriptor, 0);
  if (memory == MAP_FAILED) fail();
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t end = (place + bytes + page - 1) / page * page;
  if (place > first) ::munmap(reserved, place - first);
  if (first + around > end) ::munmap(reinterpret_cast<void*>(end), first + around - end);
  return static_cast<std::byte*>(memory);
}

}  // namespace

SharedMemory::SharedMemory(std::size_t bytes) {
  ensure(bytes > 0, "shared memory without bytes");
  OpenFile made(::memfd_create("hetpipe", MFD_CLOEXEC));
  struct stat status {};
  if (!made || ::ftruncate(made.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fstat(made.get(), &status) != 0) {
    throw SystemError(format("making %s of shared memory: %s",
                             format_bytes(static_cast<double>(bytes)).c_str(),
                             std::strerror(errno)));
  }
  memory_ = map(made.get(), bytes, PROT_READ | PROT_WRITE, "of this process");
  ask_for_huge_pages(memory_, bytes);
  descriptor_ = made.release();
  name_ = {.process = static_cast<std::int32_t>(::getpid()),
           .descriptor = descriptor_,
           .file_system = status.st_dev,
           .number = status.st_ino,
           .bytes = bytes};
}

SharedMemory SharedMemory::open(const Name& name) {
  const std::string path = format("/proc/%d/fd/%d", name.process, name.descriptor);
  const OpenFile opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status {};
  if (!opened || ::fstat(opened.get(), &status) != 0) {
    throw SystemError(
        format("opening the memory of process %d: %s", name.process, std::strerror(errno)));
  }
  if (status.st_dev != name.file_system || status.st_ino != name.number ||
      static_cast<std::uint64_t>(status.st_size) != name.bytes) {
    throw SystemError(format("the memory of process %d is not what was named", name.process));
  }
  SharedMemory memory;
  memory.memory_ = map(opened.get(), name.bytes, PROT_READ, "of another process");
  ask_for_huge_pages(memory.memory_, static_cast<std::size_t>(name.bytes));
  memory.name_ = name;
  return memory;
}

SharedMemory::~SharedMemory() {
  if (memory_ != nullptr) ::munmap(memory_, bytes());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SharedMemory::swap(SharedMemory& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(name_, other.name_);
}

}  // namespace hetpipe
