// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/ids.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

namespace hetpipe {

// The time of a stage per minibatch without any waiting, in seconds. Of a replicated stage: its
// slowest replica. For tables and explanations; who shares which link, only the simulator knows.
struct StageCost {
  double forward = 0;
  double backward = 0;
  double receive_activations = 0;
  double receive_gradients = 0;
  double compute() const { return forward + backward; }
  double receive() const { return receive_activations + receive_gradients; }
  double total() const { return compute() + receive(); }
};

// Of each stage of a virtual worker. For stages of one device these are the part times of HetPipe's
// partitioner (planners/partition.h). Ensures that check_plan has passed.
std::vector<StageCost> stage_costs(const Plan& plan, const Cluster& cluster, const Profile& profile,
                                   VirtualWorkerId vw);

}  // namespace hetpipe
