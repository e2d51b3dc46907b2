// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/file_descriptor.h"

namespace hetpipe {

// A regular file that is read in parts, in any order and by any thread, and that must stay as it
// is while it is open.
class FileReader {
 public:
  // UserError naming the file where it is missing, unreadable or no regular file.
  explicit FileReader(std::filesystem::path path);

  const std::filesystem::path& path() const { return path_; }
  std::int64_t size() const { return size_; }  // bytes
  // When it was last written to, in nanoseconds since 1970.
  std::int64_t written() const {
    return std::int64_t{changed_.tv_sec} * 1'000'000'000 + changed_.tv_nsec;
  }
  // Bytes [offset, offset + out.size()). UserError where the file ends before, or has changed since
  // it was opened.
  void read(std::int64_t offset, std::span<std::byte> out) const;

 private:
  std::filesystem::path path_;
  OpenFile file_;
  std::int64_t size_ = 0;
  timespec changed_{};  // when it was last written to
};

}  // namespace hetpipe
