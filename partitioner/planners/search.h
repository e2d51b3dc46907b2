// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/planners/planner.h"

// The project's own planner: number and composition of virtual workers, cuts, order of devices,
// micro-batches or minibatches in flight, schedule, clock distance and placement, chosen together
// by what simulate() predicts and the request's objective. docs/search.md describes how, and when
// the answer is exact.
namespace hetpipe {

// Another planner, whose plan is a start of the search: so the search is never worse.
struct SeedPlanner {
  std::string name;  // for the table of what was considered
  std::function<Plan(const PlanRequest&)> plan;
};

// A device of the cluster that the plan leaves idle.
struct LeftOut {
  DeviceName device;
  // Relative change of the worth in the best plan found that uses it as well: -0.04 is "it
  // costs 4 %". Nothing found that uses it: absent.
  std::optional<double> change;
};

// One line of what was considered: the best plan of an origin, or of a type of composition.
struct SearchCandidate {
  std::string origin;     // "np" "ed" "hd" "dapple" ... or "search"
  std::string what;       // "hetpipe, 4 virtual workers of 4 devices, Nm = 5, D = 0"
  double throughput = 0;  // simulated samples/s; 0: it does not fit
  std::string why_not;    // the planner's own words where it made no plan
  double worth = 0;       // by the request's objective
  int minibatch = 0;      // samples of one virtual worker
};

struct SearchResult {
  Plan plan;                     // with `predicted`
  double worth = 0;              // its worth, by the request's objective
  double bound = 0;              // samples/s that no plan of the searched space can exceed
  bool exact = false;            // the whole space was enumerated (docs/search.md says when)
  std::int64_t simulations = 0;  // the work done, and
  std::int64_t actions = 0;      // the actions played in them
  std::vector<LeftOut> left_out;
  std::vector<SearchCandidate> considered;  // best first
};

struct SearchOptions {
  // Work after which the search stops with what it has: actions simulated, never seconds, so that
  // the answer is the same on every machine. 0: what suits the size of the pool.
  std::int64_t actions = 0;
};

// Starts from the plans of HetPipe's policies and of the planner of every row looked at, and of
// `seeds`, each at the minibatch that it takes itself where the request gives none; planners that
// refuse (UserError) are noted in `considered`. Of plans within half a percent of the
// best, and no worse than any start, the one of the least staleness. UserError where nothing fits.
SearchResult search_plans(const PlanRequest& request, const SearchOptions& options = {},
                          const std::vector<SeedPlanner>& seeds = {});

// Only the plan.
Plan plan_search(const PlanRequest& request);

}  // namespace hetpipe
