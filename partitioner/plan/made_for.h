// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// Whether a plan is simulated with what it was made for.
namespace hetpipe {

// For messages: a plan's file with its text, and what the others are called.
struct PlanFiles {
  std::string plan;
  std::string_view plan_text;
  std::string cluster;
  std::string profile;
};

// Where a plan file holds a key, at its top or in [predicted]: "plan.toml:7".
std::string place_of_key(std::string_view text, const std::string& file, const std::string& key);

// A plan says which files it was made for. On another cluster that has its devices it is worth a
// look: a warning is returned, else nothing. But another profile is a mistake, UserError: its cuts
// would have been others. Only where the kinds of another cluster are estimated, so that the
// profile's hash has to differ, nobody can tell.
std::string check_made_for(const Plan& plan, const Cluster& cluster, const Profile& profile,
                           const PlanFiles& files);

}  // namespace hetpipe
