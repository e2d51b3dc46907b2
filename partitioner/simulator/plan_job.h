// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/engine.h"
#include "partitioner/simulator/lowered_schedules.h"
#include "partitioner/simulator/plan_workers.h"
#include "partitioner/simulator/server_traffic.h"

// A plan as the engine's job: one process per device, which does the actions of its lowered
// schedule with the profile's times.
namespace hetpipe {

class Replay;

// Whether it is kept which operations belong to which action.
enum class KeepActions { no, yes };

struct PlanJob {
  EngineJob engine;
  int minibatches = 0;                     // of the virtual worker that has most
  std::vector<PlanProcess> processes;      // by virtual worker, position, replica
  std::vector<double> computing;           // [process]: s that it computes
  std::int64_t actions = 0;                //
  std::vector<Action> recorded;            // process after process, where they are kept
  std::vector<std::int64_t> first_op;      // [recorded]
  std::vector<std::int64_t> recorded_end;  // [process]: one past its last in `recorded`
  std::vector<std::int64_t> computed;   // [process * minibatches + p]: the operation that ends the
                                        // computing of minibatch p there; -1: it has none
  std::vector<std::int64_t> updated;    // likewise, its update
  double sync_bytes_between_nodes = 0;  // parameters and gradients, per minibatch of each
  std::vector<int> complete;            // of ServerTraffic, as the gates
  std::vector<std::vector<GateMark>> gates;

  void clear();  // keeps most of the memory
};

// Ensures that check_plan has passed. UserError where schedule, cluster or profile cannot do it.
// Without `exchanges` virtual workers push and pull nothing. `replay`: recorded times; may be null.
// `reused`: one whose memory it takes.
PlanJob build_plan_job(const Plan& plan, const System& system, CostTable& costs,
                       LoweredSchedules& schedules, int minibatches, KeepActions keep,
                       bool exchanges, Replay* replay = nullptr, PlanJob reused = {});

}  // namespace hetpipe
