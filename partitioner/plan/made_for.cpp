// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/made_for.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "base/text.h"
#include "partitioner/toml_file.h"

namespace hetpipe {

std::string place_of_key(std::string_view text, const std::string& file, const std::string& key) {
  const TomlValue root = parse_toml(text, file);
  const auto place = [&](const TomlValue& value) {
    return file + ":" + std::to_string(value.line);
  };
  for (const auto& [name, value] : root.entries) {
    if (name == key) return place(value);
    if (name != "predicted") continue;
    for (const auto& [inner, entry] : value.entries) {
      if (inner == key) return place(entry);
    }
  }
  return file;
}

std::string check_made_for(const Plan& plan, const Cluster& cluster, const Profile& profile,
                           const PlanFiles& files) {
  if (!plan.predicted) return {};
  const auto differs = [](const std::string& hash, const std::string& text) {
    return !hash.empty() && hash != to_hex(hash_text(text));
  };
  const bool other_cluster = differs(plan.predicted->cluster_hash, to_toml(cluster));
  const bool estimated = std::any_of(profile.measurements.begin(), profile.measurements.end(),
                                     [](const Measurement& m) { return !m.estimate.empty(); });
  if (differs(plan.predicted->profile_hash, to_toml(profile)) && !(other_cluster && estimated)) {
    throw UserError(
        place_of_key(files.plan_text, files.plan, "profile_hash"),
        format("the plan was made with another profile than %s, or with another --profile-device, "
               "--profile-batch or --precision (profile_hash differs). Give what it was made with, "
               "plan again, or remove this line to simulate it anyway.",
               files.profile.c_str()));
  }
  if (!other_cluster) return {};
  return format(
      "warning: %s: the plan was made for another cluster than %s (cluster_hash "
      "differs): its predictions may not hold\n",
      place_of_key(files.plan_text, files.plan, "cluster_hash").c_str(), files.cluster.c_str());
}

}  // namespace hetpipe
