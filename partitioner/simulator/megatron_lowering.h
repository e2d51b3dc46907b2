// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/schedule.h"
#include "partitioner/simulator/engine.h"
#include "partitioner/simulator/megatron_constants.h"
#include "partitioner/simulator/megatron_stages.h"

// From a plan to the engine's operations, in the order of Megatron-DeepSpeed's pipeline engine
// (megatron.h says what that is; this is how it is written down).
namespace hetpipe {

// What an operation of the engine is.
struct MegatronOp {
  enum class Doing { computing, communicating, waiting };
  Doing doing = Doing::waiting;
  std::optional<Action> action;
};

struct MegatronJob {
  EngineJob job;                      // one process per stage
  std::vector<MegatronStage> stages;  // [process], virtual worker after virtual worker
  std::vector<MegatronOp> ops;        // [operation of the job]
  double bytes_between_nodes = 0;     // of gradients, per iteration
};

// Iteration after iteration; the next one starts when all ranks have ended this one (the mean loss
// is a collective). Ensures that the plan is one that the runtime can run (simulate_megatron).
MegatronJob lower_megatron(const Plan& plan, const Cluster& cluster, const Profile& profile,
                           int iterations, const MegatronConstants& constants);

}  // namespace hetpipe
