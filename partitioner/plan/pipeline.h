// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>

#include "partitioner/plan/system.h"

namespace hetpipe {

// How a virtual worker's stages are placed on devices.
struct Pipeline {
  int positions = 1;
  int chunks = 1;  // stage j: position j % positions, chunk j / positions
};
Pipeline pipeline_of(const PlanVirtualWorker& vw, ScheduleRule rule);

// What a virtual worker's schedule is generated from; first and end are the caller's.
ScheduleRequest schedule_request(const Plan& plan, const PlanVirtualWorker& vw, ScheduleRule rule);

// Those of all its stages.
std::set<DeviceName> devices_of(const Plan& plan);

// Whether any stage is on several devices.
bool replicated(const Plan& plan);

// Whether a stage keeps only its inputs and runs its forward again for its backward.
bool recomputes(const PlanStage& stage, WeightRule weights);

}  // namespace hetpipe
