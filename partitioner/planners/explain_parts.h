// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
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

  // What the objective makes of a plan with so many samples/s, against the plan as it is.
  double relative(const Plan& changed, double throughput) const {
    return request.worth(changed, throughput) / request.worth(plan, now.throughput) - 1;
  }
  double relative(double throughput) const { return relative(plan, throughput); }
  void answer(Alternative& alternative, const Plan& changed, double throughput) const;
};

// What a simulation is asked for of which only the samples/s count.
inline const SimulationRequest kOnlySpeed = [] {
  SimulationRequest request;
  request.ledgers = false;
  return request;
}();

// A change by less is within what the choice of the simulated window decides.
inline constexpr double kVisibleChange = 5e-3;

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

// explain_depth.cpp: one more minibatch in flight, twice as many where that gives nothing, or twice
// the micro-batches under a flush; and what the best of these gives, whatever memory it needs.
DepthLimit limit_of_depth(const ExplainedPlan& asked);
std::optional<double> gain_of_depth(const ExplainedPlan& asked);

// explain_limit.cpp: what each remedy gives, what limits the plan, and the stage that shows it.
Remedies remedies_for(const ExplainedPlan& asked);
std::vector<Alternative> faster_kinds(const ExplainedPlan& asked);  // best first
Bottleneck bottleneck_of(const ExplainedPlan& asked, const Remedies& remedies,
                         const std::vector<Alternative>& kinds, bool memory_for_depth);

// explain_pool.cpp: the pool with one device less, with faster links; what the plan does not use.
std::vector<Alternative> devices_left_out(const ExplainedPlan& asked);
std::vector<Alternative> faster_links(const ExplainedPlan& asked);
std::vector<std::string> idle_devices(const ExplainedPlan& asked);

}  // namespace hetpipe
