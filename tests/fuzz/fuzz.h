// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"

// What the fuzz targets share. A target is LLVMFuzzerTestOneInput: libFuzzer calls it with bytes of
// its own making (preset `fuzz`), replay.cpp with those of the corpus (every preset). It may refuse
// them with UserError; everything else is a bug.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace hetpipe::fuzz {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// Reads text with `parse`, and what was read once more from the text that it is written as.
template <class Parse>
void round_trip(const std::uint8_t* data, std::size_t size, Parse parse) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const auto value = parse(text);
    std::string written = to_toml(value);
    try {
      require(parse(written) == value, "what was written is read differently");
    } catch (const UserError& error) {
      std::fprintf(stderr, "%s\n%s\n", written.c_str(), error.what());
      require(false, "what was written is refused");
    }
  } catch (const UserError&) {
  }
}

// A file in memory that has a path.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) { require(fd_ >= 0, "memfd_create"); }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  void set(std::string_view bytes) {
    require(::ftruncate(fd_, 0) == 0, "ftruncate");
    require(::pwrite(fd_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
            "pwrite");
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

}  // namespace hetpipe::fuzz
