// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "partitioner/simulator/engine.h"
#include "partitioner/simulator/lowered_schedules.h"
#include "partitioner/simulator/plan_job.h"

namespace hetpipe {

// What one simulation leaves to the next, one at a time: the schedules that it has made, and the
// memory of its job and times.
struct SimulationMemory {
  LoweredSchedules schedules;
  PlanJob job;
  Engine engine;
};

}  // namespace hetpipe
