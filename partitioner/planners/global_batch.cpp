// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/global_batch.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

std::vector<std::string> systems_compared(const PlanRequest& request) {
  if (request.search.systems == SystemChoice::requested) return {request.system};
  std::vector<std::string> names;
  for (const std::string& name : system_names()) {
    Plan parts;
    parts.system = name;
    parts.schedule = request.schedule;
    parts.weights = request.weights;
    parts.sync = request.sync;
    const System system = composition(parts);
    if (trains_as_serial(system) && why_senseless(system).empty()) names.push_back(name);
  }
  return names;
}

BatchedPlan best_of_system(const PlanRequest& request, const std::string& system, int samples) {
  BatchedPlan best;
  best.system = system;
  const int devices = static_cast<int>(request.cluster.devices().size());
  for (int workers = 1; workers <= std::min(devices, samples); ++workers) {
    if (samples % workers != 0) continue;
    if (request.virtual_workers.value_or(workers) != workers) continue;
    if (request.micro_batches && samples / workers % *request.micro_batches != 0) continue;
    try {
      const PlanRequest one = request_of_batch(request, system, workers, samples);
      const Plan plan = make_plan(one);
      if (plan.global_batch() != samples) continue;  // its planner forms others
      const double throughput = plan.predicted->throughput;
      const double worth = one.worth(plan, throughput);
      if (best.plan && worth <= best.worth) continue;
      best.plan = plan;
      best.throughput = throughput;
      best.worth = worth;
    } catch (const UserError& error) {
      if (best.why_not.empty()) best.why_not = error.problems().front().text;
    }
  }
  if (!best.plan && best.why_not.empty()) {
    best.why_not =
        format("no number of virtual workers makes %d samples. Give another number.", samples);
  }
  return best;
}

}  // namespace

PlanRequest request_of_batch(const PlanRequest& request, const std::string& system, int workers,
                             int samples) {
  PlanRequest one = request;
  one.system = system;
  one.search.systems = SystemChoice::requested;
  one.virtual_workers = workers;
  one.minibatch = samples / workers;
  // Pipelines of these would need one minibatch in flight: their planner forms none.
  one.policy.reset();
  if (!needs_one_in_flight(composition(one))) one.policy = "search";
  return one;
}

std::vector<BatchedPlan> plans_of_global_batch(const PlanRequest& request, int samples) {
  std::vector<BatchedPlan> plans;
  for (const std::string& system : systems_compared(request)) {
    plans.push_back(best_of_system(request, system, samples));
  }
  std::stable_sort(plans.begin(), plans.end(), [](const BatchedPlan& a, const BatchedPlan& b) {
    if (a.plan.has_value() != b.plan.has_value()) return a.plan.has_value();
    return a.worth > b.worth;
  });
  return plans;
}

}  // namespace hetpipe
