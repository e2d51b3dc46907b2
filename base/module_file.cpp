// SPDX-License-Identifier: Apache-2.0
#include "base/module_file.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"../lib", HETPIPE_INSTALLED_MODULES};  // from the program's

}  // namespace

fs::path module_file(const std::string& name) {
  std::error_code error;
  const fs::path programs = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (error) return {};
  const auto in = [&](const char* folder) { return (programs / folder / name).lexically_normal(); };
  for (const char* folder : kFolders) {
    if (fs::exists(in(folder), error)) return in(folder);
  }
  return in(kFolders[0]);
}

}  // namespace hetpipe
