// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_space.h"

// How fast plans of unreplicated stages are by their part times and the bytes of synchronisation
// alone: for choosing the depth, and for ranking what may be worth a simulation.
namespace hetpipe {

// Samples/s.
double estimated_throughput(SearchSpace& space, const Plan& plan);

// A depth for a composition, how it is cut, and the worth that part times promise there.
struct DepthChoice {
  Knobs knobs;
  Recut recut = Recut::where_needed;
  double worth = 0;
  double sync = 0;  // seconds of a synchronisation
};
// Best first, of equal ones those that send less; whether each fits is not asked. Empty where the
// virtual workers cannot be cut.
std::vector<DepthChoice> depth_choices(SearchSpace& space, const Allocation& composition);

// The most that these promise where the virtual workers are cut for the least memory, whatever is
// in flight.
double worth_as_cut(SearchSpace& space, PlanScores& scores, const Allocation& composition,
                    const std::vector<DepthChoice>& choices);

struct FittingPlan {
  Plan plan;
  double worth = 0;  // as in DepthChoice
};

// The best plan of the first few of these that fit; nothing where none does.
std::optional<FittingPlan> best_that_fits(SearchSpace& space, PlanScores& scores,
                                          const Allocation& composition,
                                          const std::vector<DepthChoice>& choices);

// The same of each way in which they are cut, the one that promises most first.
std::vector<FittingPlan> each_that_fits(SearchSpace& space, PlanScores& scores,
                                        const Allocation& composition,
                                        const std::vector<DepthChoice>& choices);

// The plan of a composition's depth choices.
std::optional<Plan> deep_plan(SearchSpace& space, PlanScores& scores,
                              const Allocation& composition);

}  // namespace hetpipe
