// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/planners/planner.h"

namespace hetpipe {

// PipeDream's planner (pipedream_cut.h) for one virtual worker over all devices, node by node. It
// takes all devices for equal: each layer costs what the slowest kind present needs, each device
// has the memory of the smallest. Nodes with equally many devices are two levels, others one at the
// slowest link. The minibatch is a worker's, as PipeDream's: where none is given, the plan's holds
// one measured batch for each replica of the stage that has most. `bottleneck` is the objective in
// seconds per worker's minibatch. in_flight: the number of stages, fewer where memory is short.
// UserError when nothing fits.
Plan plan_pipedream(const PlanRequest& request);

}  // namespace hetpipe
