// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/planners/planner.h"
#include "partitioner/profile/profile.h"

// A finished plan on a changed pool or with other settings: what `hetpipe simulate --what-if` and
// the sliders of a page simulate.
namespace hetpipe {

// The request that asks for a plan like this one: its system and parts, minibatch, optimizer,
// servers. Nm, virtual workers and cuts are the planner's.
PlanRequest request_like(const Plan& plan, Cluster cluster, Profile profile);

struct ChangedPlan {
  Plan plan;
  Cluster cluster;
  Profile profile;  // that covers its kinds
  bool planned_anew = false;
};

// After changes in the words of what_if.h. Links and settings leave the plan's stages where they
// are, whether they fit or not; shares of replicas follow the minibatch. Where a device or a node
// that the plan uses is gone, or a device is added, it is planned anew (request_like), with Nm as
// the changes set it, else the planner's own. UserError under `where` for what is wrong with the
// changes, and where the plan cannot be.
ChangedPlan changed_plan(const Plan& plan, const Cluster& cluster, const Profile& profile,
                         std::string_view changes, const std::string& where);

}  // namespace hetpipe
