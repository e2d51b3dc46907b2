// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// From pool and costs to a plan.
namespace hetpipe {

struct PlanRequest {
  Cluster cluster;
  Profile profile;
  std::string system = "hetpipe";
  std::optional<std::string> policy;   // absent: the best of np, ed, hd as predicted
  std::optional<int> in_flight;        // Nm; absent: raised until throughput stops growing
  std::optional<int> virtual_workers;  // absent: what the policy forms
  std::optional<int> minibatch;        // absent: a measured batch, nearest to 32 samples
  std::optional<int> micro_batches;    // absent: what suits the planner; continuous schedules 1
  std::string schedule;                // these three replace parts of the system's row; empty: its
  std::string weights;
  std::string sync;
  std::string precision = "fp32";  // whose peak estimates take: "fp32" "tf32" "fp16"
  std::string optimizer = "sgd-momentum";
  int clock_distance = 0;
  std::string placement = "default";
  std::string pull = "bound";
  std::vector<std::string>
      server_nodes;  // empty: nodes without devices, if any; else the first node for
                     // placement "default", every node with devices for "local"
};

// Nm is the same for all virtual workers: raised from 1 while the predicted throughput grows by at
// least 1 % and memory lasts. UserError with everything that is wrong with the request, or when
// nothing fits.
Plan plan_hetpipe(const PlanRequest& request);

}  // namespace hetpipe
