// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "partitioner/profile/profile.h"

namespace hetpipe {

// Profiles that this user measured before, one file each, named by the hash of what their times
// depend on. A file says all of that in its first line, which has to be the same.
class ProfileCache {
 public:
  // What times depend on, as name and value. An empty folder keeps nothing.
  using Key = std::vector<std::pair<std::string, std::string>>;
  ProfileCache(std::filesystem::path folder, const Key& key);

  // Empty: nothing is kept.
  const std::filesystem::path& file() const { return file_; }

  struct Found {
    Profile profile;
    std::string remark;  // of whoever kept it: which batches and why
  };
  // Nothing where there is none, or none that can be read: it is measured anew then.
  std::optional<Found> find() const;
  // A folder that cannot be written is no reason to fail: what was the matter, or empty.
  std::string keep(const Profile& profile, const std::string& remark) const;

 private:
  std::string first_line_;
  std::filesystem::path file_;
};

}  // namespace hetpipe
