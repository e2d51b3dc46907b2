// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_run.h"

namespace hetpipe {
namespace {

constexpr std::size_t kTransplanted = 2;         // plans that the next system takes over
constexpr std::size_t kTransplantedNumbers = 4;  // of virtual workers, where lateness counts
constexpr double kFarOff = 0.5;                  // of the best: not worth taking over

// Those of the plan, at the first depth for as many stages where the plan's is not one of this
// space.
Knobs transplanted_knobs(const SearchSpace& space, const Plan& plan) {
  Knobs knobs = space.knobs_of(plan);
  if (!space.chooses_in_flight()) knobs.in_flight = 1;
  const bool same_knob = space.chooses_in_flight() == (plan.in_flight > 1);
  const std::vector<int> known = space.depths(knobs.in_flight);
  if (same_knob &&
      std::find(known.begin(), known.end(), SearchSpace::depth_of(space, knobs)) != known.end()) {
    return knobs;
  }
  std::size_t stages = 1;
  for (const auto& worker : plan.virtual_workers) stages = std::max(stages, worker.stages.size());
  Knobs fresh = space.first_knobs(static_cast<int>(stages));
  SearchSpace::depth_of(space, knobs) = SearchSpace::depth_of(space, fresh);
  if (space.chooses_in_flight()) knobs.micro_batches = 1;
  return knobs;
}

}  // namespace

// Where late updates count, the best number of virtual workers of one row is not that of another,
// whose updates come earlier or later. Shares of replicas are samples of a plan's own minibatch.
void transplant(SearchSpace& space, PlanScores& scores, FoundPlans& found, Depths depths) {
  const PlanRequest& request = space.row().request;
  const bool weighs = request.weighs_lateness();
  std::set<std::size_t> numbers;  // of virtual workers
  std::size_t taken = 0;
  for (const ScoredPlan& other : best_first(found.all())) {
    if (taken == (weighs ? kTransplantedNumbers : kTransplanted) || scores.spent()) return;
    if (weighs && numbers.contains(other.plan.virtual_workers.size())) continue;
    if (other.worth < kFarOff * found.best()) return;
    if (replicated(other.plan) && other.plan.minibatch != space.minibatch()) continue;
    ++taken;
    numbers.insert(other.plan.virtual_workers.size());
    Plan plan = blank_plan(request);
    plan.minibatch = space.minibatch();
    plan.virtual_workers = other.plan.virtual_workers;
    const Knobs knobs = transplanted_knobs(space, other.plan);
    for (const Knobs& at :
         depths == Depths::near ? space.with_near_depths(knobs) : std::vector{knobs}) {
      found.add(space.with_knobs(plan, at), "search");
    }
    if (!weighs || replicated(other.plan)) continue;
    if (auto deep = deep_plan(space, scores, composition_of(other.plan))) {
      found.add(*deep, "search");
    }
  }
}

}  // namespace hetpipe
