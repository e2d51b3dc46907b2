// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "partitioner/cost/memory.h"
#include "partitioner/plan/system.h"
#include "partitioner/planners/explain.h"
#include "partitioner/simulator/simulate.h"

// The questions that an explanation answers, one file each.
namespace hetpipe {

// What is explained: a plan, its request, and its simulation.
struct ExplainedPlan {
  const PlanRequest& request;
  const Plan& plan;
  System parts;
  Simulation now;

  double relative(double throughput) const { return throughput / now.throughput - 1; }
};

// A stage that needs more memory than its device has.
struct Overflow {
  int virtual_worker = 0;
  int stage = 0;
  StageNeed need;
};

// explain.cpp: the stage that lacks most, and what a changed plan gives on the same pool.
std::optional<Overflow> worst_overflow(const ExplainedPlan& asked, const Plan& plan);
Alternative tried(const ExplainedPlan& asked, std::string what, const Plan& plan);

// explain_moves.cpp: the first and the last layer of the bottleneck, moved to the next stage.
std::vector<Alternative> moves_from(const ExplainedPlan& asked, const Bottleneck& bottleneck);

// explain_depth.cpp: one more minibatch in flight, or twice the micro-batches under a flush.
DepthLimit limit_of_depth(const ExplainedPlan& asked);

// explain_pool.cpp: the pool with one device less, with faster links; what the plan does not use.
std::vector<Alternative> devices_left_out(const ExplainedPlan& asked);
std::vector<Alternative> faster_links(const ExplainedPlan& asked);
std::vector<std::string> idle_devices(const ExplainedPlan& asked);

}  // namespace hetpipe
