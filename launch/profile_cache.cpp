// SPDX-License-Identifier: Apache-2.0
#include "launch/profile_cache.h"

#include <algorithm>
#include <exception>

#include "base/file.h"
#include "base/hash.h"

namespace hetpipe {
namespace {

// A comment of one line, whatever names hold.
std::string comment(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return "# " + text + '\n';
}

}  // namespace

ProfileCache::ProfileCache(std::filesystem::path folder, const Key& key) {
  std::string text = "measured with";
  for (const auto& [name, value] : key) text += " " + name + "='" + value + "'";
  first_line_ = comment(std::move(text));
  if (!folder.empty()) {
    file_ = folder / "profiles" / (to_hex(hash_text(first_line_)) + ".toml");
  }
}

std::optional<ProfileCache::Found> ProfileCache::find() const {
  std::error_code error;
  if (file_.empty() || !std::filesystem::is_regular_file(file_, error)) return std::nullopt;
  try {
    const std::string text = read_file(file_);
    if (!text.starts_with(first_line_)) return std::nullopt;
    const std::size_t second = first_line_.size();
    const std::size_t end = text.find('\n', second);
    if (end == std::string::npos || text.compare(second, 2, "# ") != 0) return std::nullopt;
    return Found{parse_profile(text, file_.string()), text.substr(second + 2, end - second - 2)};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string ProfileCache::keep(const Profile& profile, const std::string& remark) const {
  if (file_.empty()) return {};
  try {
    std::filesystem::create_directories(file_.parent_path());
    write_file(file_, first_line_ + comment(remark) + to_toml(profile));
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace hetpipe
