// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/planners/planner.h"

// Systems compared on equal terms: all virtual workers together make minibatches of as many
// samples.
namespace hetpipe {

struct BatchedPlan {
  std::string system;
  std::optional<Plan> plan;  // absent: none
  std::string why_not;       // then, a planner's reason
  double throughput = 0;     // samples/s, simulated
  double worth = 0;          // what the request's objective makes of them
};

// Of a system with so many virtual workers, each with its share of the samples.
PlanRequest request_of_batch(const PlanRequest& request, const std::string& system, int workers,
                             int samples);

// For each system the best plan, by the request's objective, with so many samples in one minibatch
// of every virtual worker: of all numbers of virtual workers that divide them, searched with that
// share as minibatch. Best first, those without a plan last. Of SystemChoice::requested one; else
// all that train as serial training would, up to bounded staleness.
std::vector<BatchedPlan> plans_of_global_batch(const PlanRequest& request, int samples);

}  // namespace hetpipe
