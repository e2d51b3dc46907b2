// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launch/command/kept_file.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

// Profiles that this user measured earlier, each with a remark in its second line.
class ProfileCache {
 public:
  ProfileCache(const std::filesystem::path& folder, const KeptFile::Key& key)
      : kept_(folder, "profiles", key) {}

  // Empty: nothing is cached.
  const std::filesystem::path& file() const { return kept_.path(); }

  struct Found {
    Profile profile;
    std::string remark;  // stored with it: which batches and why
  };
  // Nothing if there is none, or it cannot be read: it is then measured again.
  std::optional<Found> find() const;
  // As KeptFile::keep.
  std::string keep(const Profile& profile, const std::string& remark) const;

 private:
  KeptFile kept_;
};

}  // namespace hetpipe
