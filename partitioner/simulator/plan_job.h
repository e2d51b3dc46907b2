// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/engine.h"
#include "partitioner/simulator/stage_times.h"

// A plan as the engine's job: one process per device, which does the actions of its lowered
// schedule with the profile's times.
namespace hetpipe {

struct PlanProcess {
  int virtual_worker = 0;
  int position = 0;  // in the pipeline: the stage, or the device of an interleaved schedule
  int replica = 0;
  int replicas = 1;
  DeviceName device;
  const DeviceKind* kind = nullptr;
  std::vector<std::pair<int, int>> layers;  // first, one past the last; one per chunk
  std::int64_t first_action = 0;            // in PlanJob::actions
  std::int64_t end_action = 0;
};

struct PlanJob {
  EngineJob engine;
  int minibatches = 0;                  // of each virtual worker
  std::vector<PlanProcess> processes;   // by virtual worker, position, replica
  std::vector<Action> actions;          // process after process
  std::vector<std::int64_t> first_op;   // [action], and one past the last operation
  std::vector<std::int64_t> computed;   // [process * minibatches + p]: the operation that ends the
                                        // computing of minibatch p there
  std::vector<std::int64_t> updated;    // likewise, its update
  double sync_bytes_between_nodes = 0;  // parameters and gradients, per minibatch of each
};

// How a virtual worker's stages stand on devices.
struct Pipeline {
  int positions = 1;
  int chunks = 1;  // stage j: position j % positions, chunk j / positions
};
Pipeline pipeline_of(const PlanVirtualWorker& vw, ScheduleRule rule);

// Ensures that check_plan has passed. UserError where schedule, cluster or profile cannot do it.
PlanJob build_plan_job(const Plan& plan, const System& system, CostTable& costs, int minibatches);

}  // namespace hetpipe
