// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/plan/unmeasured.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {

// What was changed before a simulation (planners/changed_plan.h).
struct SimulatedChange {
  std::string changes;
  bool planned_anew = false;
};

// One JSON document: version (of this form, 1), throughput (samples/s), iteration_time (s for one
// minibatch of every virtual worker), global_batch (samples), stages[] with virtual_worker, stage,
// replica, device, the fractions busy, bubble, communication (which add up to 1), peak_memory
// (bytes); unmeasured[], as of a plan (plan/unmeasured.h). After changes also what_if: changes,
// planned_anew, and of the plan that is simulated minibatch, micro_batches, in_flight and, with
// parameter servers, clock_distance. With recorded times also replay: minibatches (of each virtual
// worker), seconds (from the start to the end of the last action), recorded (times of the file),
// medians (of actions behind the recorded minibatches), of_profile (kinds without rows), ignored
// (rows of actions that follow from the others).
std::string simulation_json(const Plan& plan, const Simulation& simulation,
                            const std::vector<UnmeasuredTimes>& unmeasured = {},
                            const std::optional<SimulatedChange>& change = {});

}  // namespace hetpipe
