// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>

#include "partitioner/planners/search_effort.h"
#include "partitioner/planners/search_leave_out.h"
#include "partitioner/planners/search_pool.h"
#include "partitioner/planners/search_report.h"
#include "partitioner/planners/search_space.h"

namespace hetpipe {
namespace {

constexpr double kNear = 0.85;          // of the best: rows to look at in smaller pools
constexpr double kPaysAlone = 1.001;    // times: what a search of one row must bring
constexpr std::size_t kLeavesOut = 32;  // devices: larger pools are not searched without one

using Asks = std::function<FoundInPool(const Again&)>;

double best_row(const FoundInPool& found) {
  double best = 0;
  for (const auto& [row, worth] : found.rows) best = std::max(best, worth);
  return best;
}

// Those whose best plan is worth so much, and those that take no time: a device may slow their
// rounds down most, and their share of the work may have been too little.
RowNames rows_near(const FoundInPool& found, double worth) {
  RowNames rows = rows_worth(found, worth);
  rows.insert(found.quick.begin(), found.quick.end());
  return rows;
}

// Each row by itself has all of the work that a search of many shares out, and takes other ways.
void ask_rows_alone(const Again& rows, SearchResult& result, const Asks& search) {
  for (const RowName& row : rows.rows) {
    const bool whatever = rows.to_beat == 0;
    const double to_beat = whatever ? 0 : std::max(rows.to_beat, result.worth);
    const SearchResult found = search({{row}, to_beat, rows.policies}).result;
    result.simulations += found.simulations;
    result.actions += found.actions;
    // What may not beat it has no plan.
    if (found.worth <= kPaysAlone * std::max(rows.to_beat, result.worth)) continue;
    result.worth = found.worth;
    result.plan = found.plan;
    result.left_out = found.left_out;
    result.bound = std::max(result.bound, found.bound);
    result.considered.insert(
        result.considered.begin(),
        {"search of " + row.first + " alone", describe(found.plan),
         found.plan.predicted->throughput, "", found.worth, found.plan.minibatch});
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
      const RowNames near = rows_near(whole, effort.near_alone * best_row(whole));
      ask_rows_alone({near, to_beat}, result, [&](const Again& row) {
        return search_pool(request, options, {}, cuts, simulated, row);
      });
    }
    const RowNames rows = rows_near(whole, kNear * best_row(whole));
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
