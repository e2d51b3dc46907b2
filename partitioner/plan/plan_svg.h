// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

// A picture of the pool and the cut: every node with its devices, in the colour of the virtual
// worker that each belongs to, and below it for every stage its layers, how long a minibatch
// takes (compute, and the wait for messages behind it) against the slowest stage, and how full the
// memory is. Ensures that check_plan has passed.
std::string plan_svg(const Plan& plan, const Cluster& cluster, const Profile& profile);

}  // namespace hetpipe
