// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/unmeasured.h"
#include "partitioner/simulator/simulate.h"

// The output of `hetpipe simulate`, as JSON and as text.
namespace hetpipe {

// One JSON document: version (of this form, 1), throughput (samples/s), iteration_time (s for one
// minibatch of every virtual worker), global_batch (samples), stages[] with virtual_worker, stage,
// replica, device, the fractions busy, bubble, communication (which add up to 1), peak_memory
// (bytes); unmeasured[], as of a plan (plan_json.h). With recorded times also replay: minibatches
// (of each virtual worker), seconds (from the start to the end of the last action), recorded (times
// of the file), medians (of actions behind the recorded minibatches), of_profile (kinds without
// rows), ignored (rows of actions that follow from the others).
std::string simulation_json(const Plan& plan, const Simulation& simulation,
                            const std::vector<UnmeasuredTimes>& unmeasured = {});

// How long a replay took, and whose times it had.
std::string replayed_text(const std::string& file, const Replayed& replayed);

// A row per device.
std::string simulation_table(const Plan& plan, const Cluster& cluster,
                             const Simulation& simulation);

}  // namespace hetpipe
