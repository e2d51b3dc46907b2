// SPDX-License-Identifier: Apache-2.0
#include "launch/command/output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace hetpipe {

void check_output_file(const std::string& option, const std::string& path, Problems& problems) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::is_directory(path, error)) {
    problems.add(option, path + " (is a folder). Give the name of a file.");
    return;
  }
  fs::path folder = fs::path(path).parent_path();
  if (folder.empty()) folder = ".";
  if (!fs::is_directory(folder, error)) {
    problems.add(option, path + " (there is no folder " + folder.string() +
                             "). Create it, or give another file.");
  } else if (::access(folder.c_str(), W_OK) != 0) {
    problems.add(option, path + " (cannot write to " + folder.string() + ": " +
                             std::strerror(errno) + "). Give another file.");
  }
}

void check_output_folder(const std::string& option, const std::string& path, Problems& problems) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path there = fs::absolute(path).lexically_normal();  // the part of it that exists
  while (!fs::exists(fs::symlink_status(there, error)) && there != there.root_path()) {
    there = there.parent_path();
  }
  if (!fs::is_directory(there, error)) {
    problems.add(option, path + " (" + there.string() + " is not a folder). Give another folder.");
  } else if (::access(there.c_str(), W_OK | X_OK) != 0) {
    problems.add(option, path + " (cannot write to " + there.string() + ": " +
                             std::strerror(errno) + "). Give another folder.");
  }
}

void check_file_of_its_own(const std::string& option, const std::string& path,
                           const NamedFiles& others, Problems& problems) {
  namespace fs = std::filesystem;
  const auto canonical = [](const std::string& file) {
    std::error_code error;
    const fs::path found = fs::weakly_canonical(file, error);
    return error ? fs::path(file).lexically_normal() : found;
  };
  const fs::path own = canonical(path);
  std::error_code error;
  // A device, a pipe: nothing is lost there.
  if (fs::exists(own, error) && !fs::is_regular_file(own, error)) return;
  for (const auto& [other, file] : others) {
    if (!file || canonical(*file) != own) continue;
    problems.add(option, path + " (is the same file as that of " + other +
                             ", which would be overwritten). Give another file.");
  }
}

}  // namespace hetpipe
