// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "partitioner/planners/search.h"
#include "partitioner/planners/search_run.h"
#include "partitioner/planners/search_score.h"
#include "partitioner/planners/search_space.h"

// The search of one pool with its rows of systems; search.cpp makes it in smaller pools and for
// single rows, too.
namespace hetpipe {

using RowName = std::pair<std::string, std::string>;  // system, synchronisation
using RowNames = std::set<RowName>;

// A search that is made again, of some rows, or in a part of the pool: no longer than it may win.
struct Again {
  RowNames rows;
  double to_beat = 0;     // worth; 0: whatever it finds
  bool policies = false;  // HetPipe's, too
};

// The best plan of each system, synchronisation and number of virtual workers.
using BestPlans = std::map<std::tuple<std::string, std::string, std::size_t>, ScoredPlan>;
void keep_better(BestPlans& best, const ScoredPlan& plan);

struct FoundInPool {
  SearchResult result;             // of a search that may not win: only its worth and the work done
  std::map<RowName, double> rows;  // worth of the best plan; 0: none was found
  RowNames quick;                  // of them, those that take no time
  BestPlans best;
};

// Of the best plan of all rows; 0: none was found.
double best_worth(const FoundInPool& found);

// Those whose best plan is worth at least so much.
RowNames rows_worth(const FoundInPool& found, double worth);

// `cuts` and `simulated` may come from searches in pools with devices of the same names and kinds.
FoundInPool search_pool(const PlanRequest& request, const SearchOptions& options,
                        const std::vector<SeedPlanner>& seeds, CutCache& cuts,
                        const std::shared_ptr<SimulatedPlans>& simulated,
                        std::optional<Again> again = std::nullopt);

// What annealing makes of the best of these plans.
SearchResult annealed(const PlanRequest& request, const SearchOptions& options, CutCache& cuts,
                      const std::shared_ptr<SimulatedPlans>& simulated, const BestPlans& plans);

}  // namespace hetpipe
