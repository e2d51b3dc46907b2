// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/planners/planner.h"

namespace hetpipe {

// Data parallelism, Horovod's job: the whole model on every device that can hold it; the others are
// left out. With all-reduce one virtual worker of one replicated stage, whose minibatch is split in
// proportion to speed; where no minibatch is given, it is the measured batch times the devices.
// With a parameter server (ssp, asp) one virtual worker per device with the minibatch for each;
// with sync = "outer" one per node, whose devices are replicas that split it.
// `bottleneck`: seconds of one minibatch, the slowest device's compute and, with all-reduce, the
// ring's 2 (n-1)/n of the parameters over the slowest link. UserError when no device can hold the
// model.
Plan plan_data_parallel(const PlanRequest& request);

}  // namespace hetpipe
