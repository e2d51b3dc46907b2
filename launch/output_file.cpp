// SPDX-License-Identifier: Apache-2.0
#include "launch/output_file.h"

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
    problems.add(option, path + " (nothing can be written to " + folder.string() + ": " +
                             std::strerror(errno) + "). Give another file.");
  }
}

}  // namespace hetpipe
