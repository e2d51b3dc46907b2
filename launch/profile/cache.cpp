// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/cache.h"

#include <algorithm>
#include <exception>

namespace hetpipe {

std::optional<ProfileCache::Found> ProfileCache::find() const {
  const std::optional<std::string> text = kept_.find();
  if (!text || !text->starts_with("# ")) return std::nullopt;
  const std::size_t end = text->find('\n');
  if (end == std::string::npos) return std::nullopt;
  try {
    return Found{parse_profile(*text, file().string()), text->substr(2, end - 2)};
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

std::string ProfileCache::keep(const Profile& profile, const std::string& remark) const {
  std::string line = remark;  // of one line, whatever names hold
  std::replace(line.begin(), line.end(), '\n', ' ');
  return kept_.keep("# " + line + '\n' + to_toml(profile));
}

}  // namespace hetpipe
