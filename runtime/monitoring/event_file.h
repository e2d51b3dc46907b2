// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/file_descriptor.h"

namespace hetpipe {

// One event file of a folder that TensorBoard shows, appended to. Each start of a run writes one of
// its own.
class EventFile {
 public:
  // SystemError where it cannot be created.
  EventFile(const std::filesystem::path& folder, double time);

  // Whole records, the first ones behind the version's. Where there is no room, they are left out
  // and SystemError is thrown; the file then ends where it ended before.
  void append(const std::string& records);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  double time_;
  OpenFile file_;
  std::int64_t bytes_ = 0;
};

}  // namespace hetpipe
