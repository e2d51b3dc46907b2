// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/planners/planner.h"

namespace hetpipe {

// DAPPLE's planner (dapple_search.h) for one virtual worker over all devices. Where the number of
// micro-batches is not given, it is chosen too: for 1 ... 16 positions of equally many devices each
// (a stage takes whole positions), a micro-batch is one measured batch per device of a position.
// Where no minibatch is given, it is four measured batches per device. `bottleneck` is the latency
// L of a minibatch, in seconds. UserError when nothing fits, even with recomputation.
Plan plan_dapple(const PlanRequest& request);

}  // namespace hetpipe
