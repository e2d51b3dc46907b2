// SPDX-License-Identifier: Apache-2.0
#include "base/cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>

#include "base/file.h"
#include "base/hash.h"

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

KeptFile::KeptFile(const std::filesystem::path& folder, const std::string& sort, const Key& key) {
  std::string text = "# measured with";
  for (const auto& [name, value] : key) text += " " + name + "='" + value + "'";
  std::replace(text.begin(), text.end(), '\n', ' ');
  first_line_ = text + '\n';
  if (!folder.empty()) path_ = folder / sort / (to_hex(hash_text(first_line_)) + ".toml");
}

std::optional<std::string> KeptFile::find() const {
  std::error_code error;
  if (path_.empty() || !std::filesystem::is_regular_file(path_, error)) return std::nullopt;
  try {
    const std::string text = read_file(path_);
    if (!text.starts_with(first_line_)) return std::nullopt;
    return text.substr(first_line_.size());
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string KeptFile::keep(const std::string& text) const {
  if (path_.empty()) return {};
  try {
    std::filesystem::create_directories(path_.parent_path());
    write_file(path_, first_line_ + text);
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace hetpipe
