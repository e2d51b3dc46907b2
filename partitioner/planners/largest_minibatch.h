// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "partitioner/planners/planner.h"

// How large minibatches can be.
namespace hetpipe {

// The largest minibatch of each virtual worker with which all stages of a plan, with the layers and
// devices that they have and as many in flight, fit their devices by the ledger.
struct LargestMinibatch {
  int minibatch = 0;      // samples; one plan after another is tried in steps of its micro-batches
  double throughput = 0;  // samples/s, simulated with it
  double worth = 0;       // what the request's objective makes of them
  // The next larger one: the stage that lacks most.
  int next = 0;
  int virtual_worker = 0;
  int stage = 0;
  DeviceName device = {};
  std::int64_t missing_bytes = 0;
};

// By bisection: what a stage needs does not fall as its samples grow. Ensures that the plan fits,
// and has one minibatch for all virtual workers. UserError if memory sets no limit.
LargestMinibatch largest_minibatch(const PlanRequest& request, const Plan& plan);

// The plan with another minibatch: replicas share it by their speed, as planned.
Plan with_minibatch(const PlanRequest& request, Plan plan, int minibatch);

}  // namespace hetpipe
