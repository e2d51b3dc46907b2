// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/text.h"
#include "partitioner/planners/search_effort.h"
#include "partitioner/planners/search_leave_out.h"
#include "partitioner/planners/search_pool.h"
#include "partitioner/planners/search_report.h"
#include "partitioner/planners/search_space.h"

namespace hetpipe {
namespace {

constexpr double kNear = 0.85;          // of the best: rows to look at in smaller pools
constexpr double kNearNumber = 0.9;     // of it: numbers of virtual workers to look at alone
constexpr double kPaysAlone = 1.001;    // times: what a search of one row must bring
constexpr std::size_t kLeavesOut = 32;  // devices: larger pools are not searched without one

using Asks = std::function<FoundInPool(const Again&)>;

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
    take_over(result, search({{row}, to_beat, rows.policies}).result, rows.to_beat,
              "search of " + row.first + " alone");
  }
}

// And each number of virtual workers that came near, of its row.
void ask_numbers_alone(const FoundInPool& whole, SearchResult& result,
                       const std::function<FoundInPool(int, const Again&)>& search) {
  const double near = kNearNumber * result.worth;
  for (const auto& [row, numbers] : whole.rows) {
    for (const auto& [workers, worth] : numbers) {
      if (worth < near) continue;
      take_over(result, search(workers, {{row}, result.worth}).result, 0,
                format("search of %s with %d alone", row.first.c_str(), workers));
    }
  }
}

}  // namespace

SearchResult search_plans(const PlanRequest& request, const SearchOptions& options,
                          const std::vector<SeedPlanner>& seeds) {
  check_request(request);
  CutCache cuts;
  const auto simulated = std::make_shared<SimulatedPlans>(cuts.tables);
  const FoundInPool whole = search_pool(request, options, seeds, cuts, simulated);
  SearchResult result = whole.result;
  const auto devices = request.cluster.devices().size();
  if (!result.exact && devices > 1 && devices <= kLeavesOut) {
    const SearchEffort effort = search_effort(request.cluster);
    const bool asks_alone = effort.near_alone > 0 && whole.rows.size() > 1;
    if (asks_alone) {
      const double to_beat = effort.alone_whatever ? 0 : result.worth;
      const RowNames near = rows_near(whole, effort.near_alone * best_worth(whole));
      ask_rows_alone({near, to_beat}, result, [&](const Again& row) {
        return search_pool(request, options, {}, cuts, simulated, row);
      });
    }
    if (effort.near_alone > 0 && !request.virtual_workers) {
      ask_numbers_alone(whole, result, [&](int workers, const Again& row) {
        PlanRequest of_number = request;
        of_number.virtual_workers = workers;
        CutCache own;  // cuts and packings of all numbers steer where it looks
        own.tables = cuts.tables;
        return search_pool(of_number, options, {}, own, simulated, row);
      });
    }
    const RowNames rows = rows_near(whole, kNear * best_worth(whole));
    // Policies use every device: they give something new where an idle one is gone.
    const auto search_less = [&](const PlanRequest& less, bool idle) {
      CutCache own;
      own.tables = cuts.tables;
      CutCache& of_less = effort.cuts_anew ? own : cuts;
      const Asks search = [&](const Again& again) {
        return search_pool(less, options, {}, of_less, simulated, again);
      };
      const double to_beat = result.worth;
      FoundInPool found = search({rows, to_beat, idle});
      if (asks_alone && less.cluster.devices().size() + 1 == devices) {
        const double near = kNear * std::max(to_beat, found.result.worth);
        ask_rows_alone({rows_near(found, near), to_beat, idle}, found.result, search);
      }
      return found.result;
    };
    leave_out_what_costs(request, result, effort.leaves_out_groups, search_less);
  }
  note_inputs(request, result.plan);
  return result;
}

Plan plan_search(const PlanRequest& request) { return search_plans(request).plan; }

}  // namespace hetpipe
