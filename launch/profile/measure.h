// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/cache.h"
#include "launch/profile/device.h"
#include "partitioner/profile/profile.h"
#include "runtime/model/model.h"
#include "runtime/pipeline/measure.h"

// A model measured on one device, or taken from an earlier measurement on such a device.
namespace hetpipe {

// Profiles that this user measured earlier, each with a remark in its second line.
class ProfileCache {
 public:
  ProfileCache(const std::filesystem::path& folder, const KeptFile::Key& key)
      : kept_(folder, "profiles", key) {}

  // Empty: nothing is kept.
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

struct ProfileWanted {
  std::vector<int> batches{};  // samples per call; empty: chosen as memory and time allow
  int threads = 1;
  double budget_seconds = 60;  // for batches that are chosen, together
  bool fresh = false;          // measure even if it was measured earlier
};

struct MeasuredProfile {
  Profile profile;
  std::string remark;               // which batches, and why
  bool found = false;               // measured earlier
  std::filesystem::path kept_in{};  // where it was found or is cached now; empty: nowhere
  std::string not_kept{};           // why it was not cached, if it should have been
  std::vector<PassCheck> checks{};  // of what was measured now
};

// UserError if the model does not fit into the device's memory.
MeasuredProfile measured_profile(const Model& model, const ProfiledDevice& on,
                                 const ProfileWanted& wanted);

}  // namespace hetpipe
