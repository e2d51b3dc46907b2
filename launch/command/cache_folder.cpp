// SPDX-License-Identifier: Apache-2.0
#include "launch/command/cache_folder.h"

#include <unistd.h>

#include <cstdlib>

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

fs::path wanted() {
  const auto given = [](const char* name) -> const char* {
    const char* const value = std::getenv(name);
    return value != nullptr && *value == '/' ? value : nullptr;
  };
  if (const char* const own = given("HETPIPE_CACHE")) return own;
  if (const char* const cache = given("XDG_CACHE_HOME")) return fs::path(cache) / "hetpipe";
  if (const char* const home = given("HOME")) return fs::path(home) / ".cache" / "hetpipe";
  return {};
}

}  // namespace

fs::path cache_folder() {
  const fs::path folder = wanted();
  std::error_code error;
  if (folder.empty()) return {};
  fs::create_directories(folder, error);
  return error || access(folder.c_str(), W_OK) != 0 ? fs::path() : folder;
}

std::string plan_cache() {
  const fs::path folder = cache_folder();
  return folder.empty() ? std::string() : (folder / "plans.jsonl").string();
}

}  // namespace hetpipe
