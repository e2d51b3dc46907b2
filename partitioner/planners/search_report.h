// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "partitioner/planners/search_run.h"

// What the search reports about the plan it chose.
namespace hetpipe {

// Of the plans within half a percent of the best, and no slower than `at_least`, the one of least
// staleness; nothing where there are none.
const ScoredPlan* least_stale(const std::vector<ScoredPlan>& plans, double at_least);

// What each idle device would bring: the best of the plans found that use it as well, and of some
// that are tried for this purpose, and found from now on.
std::vector<LeftOut> left_out(const ScoredPlan& chosen, SearchSpace& space, PlanScores& scores,
                              FoundPlans& found);

// The best plan of every origin, system, minibatch and number of virtual workers, best first.
std::vector<SearchCandidate> considered(const std::vector<ScoredPlan>& plans);

// Stage by stage what the planner predicts, and the simulated throughput, as other planners do.
Plan with_forecast(const PlanRequest& request, const ScoredPlan& scored);

}  // namespace hetpipe
