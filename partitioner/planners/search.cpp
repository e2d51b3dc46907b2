// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/text.h"
#include "partitioner/planners/search_effort.h"
#include "partitioner/planners/search_leave_out.h"
#include "partitioner/planners/search_pool.h"
#include "partitioner/planners/search_report.h"
#include "partitioner/planners/search_space.h"

namespace hetpipe {
namespace {

constexpr double kNear = 0.85;        // of the best: rows to look at in smaller pools
constexpr double kNearNumber = 0.7;   // of it: numbers of virtual workers to look at alone
constexpr double kPaysAlone = 1.001;  // times: what a search of one row must bring
constexpr const char* kAnnealed = "search, annealed";
constexpr std::size_t kLeavesOut = 32;  // devices: larger pools are not searched without one

using Asks = std::function<FoundInPool(const Again&)>;
using NumberAsks = std::function<FoundInPool(int workers, const Again&)>;

// Those whose best plan is worth so much, and those that take no time: a device may slow their
// rounds down most, and their share of the work may have been too little.
RowNames rows_near(const FoundInPool& found, double worth) {
  RowNames rows = rows_worth(found, worth);
  rows.insert(found.quick.begin(), found.quick.end());
  return rows;
}

// The plan of a further search, where it pays: what may not be worth more than `to_beat` has none.
void take_over(SearchResult& result, const SearchResult& found, double to_beat,
               const std::string& origin) {
  result.simulations += found.simulations;
  result.actions += found.actions;
  if (found.worth <= kPaysAlone * std::max(to_beat, result.worth)) return;
  result.worth = found.worth;
  result.plan = found.plan;
  result.left_out = found.left_out;
  result.bound = std::max(result.bound, found.bound);
  result.considered.insert(result.considered.begin(),
                           {origin, describe(found.plan), found.plan.predicted->throughput, "",
                            found.worth, found.plan.minibatch});
}

// Each row by itself has all of the work that a search of many shares out, and takes other ways.
void ask_rows_alone(const Again& rows, SearchResult& result, const Asks& search) {
  for (const RowName& row : rows.rows) {
    const bool whatever = rows.to_beat == 0;
    const double to_beat = whatever ? 0 : std::max(rows.to_beat, result.worth);
    take_over(result, search({{row}, to_beat}).result, rows.to_beat,
              "search of " + row.first + " alone");
  }
}

// Those with which the best plan is worth at least so much.
std::set<int> numbers_worth(const BestPlans& best, double worth) {
  std::set<int> workers;
  for (const auto& [name, found] : best) {
    if (found.worth >= worth) workers.insert(static_cast<int>(found.plan.virtual_workers.size()));
  }
  return workers;
}

// And each of these numbers of virtual workers, with these rows: among all numbers few compositions
// of each are looked at.
void ask_numbers_alone(const std::set<int>& numbers, const Again& rows, SearchResult& result,
                       const NumberAsks& search) {
  const double to_beat = std::max(rows.to_beat, result.worth);  // whatever comes first
  for (const int workers : numbers) {
    take_over(result, search(workers, {rows.rows, to_beat}).result, rows.to_beat,
              format("search with %d virtual workers", workers));
  }
}

// A request, and what its searches share.
struct Asked {
  const PlanRequest& request;
  const SearchOptions& options;
  SearchEffort effort;
  CutCache cuts{};
  std::shared_ptr<SimulatedPlans> simulated = std::make_shared<SimulatedPlans>(cuts.tables);
};

// Rows and numbers of virtual workers by themselves, and what annealing makes of all that was
// found so far.
void ask_parts(Asked& asked, const FoundInPool& whole, SearchResult& result) {
  const PlanRequest& request = asked.request;
  const SearchEffort& effort = asked.effort;
  BestPlans best = whole.best;
  const auto kept = [&](FoundInPool found) {
    for (const auto& [name, plan] : found.best) keep_better(best, plan);
    return found;
  };
  if (effort.near_alone > 0 && whole.rows.size() > 1) {
    const double to_beat = effort.alone_whatever ? 0 : result.worth;
    const RowNames near = rows_near(whole, effort.near_alone * best_worth(whole));
    ask_rows_alone({near, to_beat}, result, [&](const Again& row) {
      return kept(search_pool(request, asked.options, {}, asked.cuts, asked.simulated, row));
    });
  }
  if (effort.near_alone > 0 && !request.virtual_workers) {
    const RowNames rows = rows_near(whole, kNear * best_worth(whole));
    const std::set<int> numbers = numbers_worth(whole.best, kNearNumber * result.worth);
    ask_numbers_alone(numbers, {rows}, result, [&](int workers, const Again& again) {
      PlanRequest of_number = request;
      of_number.virtual_workers = workers;
      CutCache own;  // cuts and packings of all numbers steer where it looks
      own.tables = asked.cuts.tables;
      return kept(search_pool(of_number, asked.options, {}, own, asked.simulated, again));
    });
  }
  if (effort.anneals) {
    take_over(result, annealed(request, asked.options, asked.cuts, asked.simulated, best), 0,
              kAnnealed);
  }
}

// The pool without devices that cost more than they bring.
void ask_smaller_pools(Asked& asked, const FoundInPool& whole, SearchResult& result) {
  const PlanRequest& request = asked.request;
  const SearchEffort& effort = asked.effort;
  const RowNames rows = rows_near(whole, kNear * best_worth(whole));
  const double with_all = result.worth;
  // Policies use every device: they give something new where an idle one is gone.
  leave_out_what_costs(
      request, result, effort.leaves_out_groups, [&](const PlanRequest& less, bool idle) {
        CutCache own;
        own.tables = asked.cuts.tables;
        CutCache& of_less = effort.cuts_anew ? own : asked.cuts;
        const Again again{rows, result.worth, idle};
        return search_pool(less, asked.options, {}, of_less, asked.simulated, again).result;
      });
  if (!effort.anneals || result.worth <= with_all) return;
  const ScoredPlan plan{result.plan, result.plan.predicted->throughput, result.worth, "search"};
  take_over(result, annealed(request, asked.options, asked.cuts, asked.simulated, {{{}, plan}}), 0,
            kAnnealed);
}

}  // namespace

SearchResult search_plans(const PlanRequest& request, const SearchOptions& options,
                          const std::vector<SeedPlanner>& seeds) {
  check_request(request);
  Asked asked{request, options, search_effort(request.cluster)};
  const FoundInPool whole = search_pool(request, options, seeds, asked.cuts, asked.simulated);
  SearchResult result = whole.result;
  const auto devices = request.cluster.devices().size();
  if (!result.exact && devices > 1 && devices <= kLeavesOut) {
    ask_parts(asked, whole, result);
    ask_smaller_pools(asked, whole, result);
  }
  note_inputs(request, result.plan);
  return result;
}

Plan plan_search(const PlanRequest& request) { return search_plans(request).plan; }

}  // namespace hetpipe
