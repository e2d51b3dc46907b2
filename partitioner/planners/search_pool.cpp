// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_pool.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "partitioner/planners/search_bound.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_pool_state.h"
#include "partitioner/planners/search_report.h"

namespace hetpipe {
namespace {

constexpr int kFollowed = 3;           // times that a choice is made anew
constexpr double kMayStillWin = 0.85;  // of what is to be beaten, after steps from the best few
constexpr std::size_t kFew = 3;
constexpr std::size_t kOfOthers = 8;  // compositions of a row but the first there
constexpr std::int64_t kExactActions = 20'000'000;

[[noreturn]] void nothing_runs(const PoolState& pool) {
  std::string text = "no plan was found that fits and runs (the planners' reasons follow).";
  for (const SearchCandidate& candidate : pool.refused) {
    text += "\n  " + candidate.origin + ": " + candidate.why_not;
  }
  for (const std::string& why : pool.why_not) text += "\n  " + why;
  text += "\nUse a smaller minibatch, or more or larger devices.";
  throw UserError("", text);
}

// Data parallelism has few plans beside its planner's.
bool explored(const PoolState& pool, const SearchRow& row) {
  return row.parts.planner != PlannerRule::data_parallel || pool.devices <= kLargePool;
}

// Its own compositions and, but for the first row, the plans of those before.
void explore(PoolState& pool, const SearchRow& row, bool first) {
  SearchSpace& space = pool.enter(row, row.minibatch);
  const std::size_t before = pool.found.all().size();
  const bool small = pool.devices <= 4 && pool.request.profile->layers.size() <= 6;
  pool.scores.allow(small ? kExactActions : pool.budget / 2);
  const bool all = try_all_plans(space, pool.scores, pool.found);
  pool.exact = pool.exact && all;
  if (!all) {
    if (!first) transplant(space, pool.scores, pool.found, Depths::known);
    const bool large = pool.devices > kLargePool;
    if (first || !large || pool.found.all().size() == before) {
      std::vector<Composition> compositions = pool.compositions.of(space);
      if (large && !first) compositions.resize(std::min(compositions.size(), kOfOthers));
      const double least =
          std::max(pool.effort.hopeless * pool.found.best(), pool.effort.may_gain * pool.to_beat());
      search_compositions(space, pool.scores, pool.found, compositions,
                          {least, pool.effort.may_reach * pool.to_beat(), pool.effort.simulated,
                           pool.effort.plans_first});
    }
  }
  if (pool.found.all().size() == before) {
    const std::string& why = pool.scores.why_not();
    pool.why_not.push_back(
        row.request.system + ": " +
        (why.empty() ? "no virtual workers could be formed and partitioned in this way" : why));
  }
}

// The least stale of the plans near the best may not have been improved.
ScoredPlan settle(PoolState& pool) {
  for (int followed = 0;; ++followed) {
    const ScoredPlan* best = least_stale(pool.found.all(), pool.seeds_best);
    if (best == nullptr) nothing_runs(pool);
    const ScoredPlan chosen = *best;
    if (pool.exact || followed == kFollowed) return chosen;
    improve_from(pool, chosen);
    if (least_stale(pool.found.all(), pool.seeds_best)->plan == chosen.plan) return chosen;
  }
}

// The best plan; single steps do not make it better, nor do its idle devices, as far as the
// search can follow them.
ScoredPlan choose(PoolState& pool, std::vector<LeftOut>& idle) {
  for (int followed = 0;; ++followed) {
    const ScoredPlan chosen = settle(pool);
    pool.found.enter(chosen.space);
    // With no work to do it looks at plans found before.
    pool.scores.allow(followed < kFollowed ? pool.budget / 4 : 0);
    idle = left_out(chosen, *pool.spaces[chosen.space], pool.scores, pool.found);
    if (pool.found.best() <= chosen.worth * (1 + kWorthIt) || followed == kFollowed) return chosen;
    improve_from(pool, best_first(pool.found.all()).front());
  }
}

// Before it is improved: not far behind what is to be beaten, or steps from the best few bring it
// near.
bool may_win(PoolState& pool) {
  if (!pool.again) return true;
  if (pool.found.best() == 0) return false;
  if (pool.found.best() >= kMayWin * pool.to_beat()) return true;
  if (pool.found.best() < pool.effort.may_start * pool.to_beat()) return false;
  Starts starts({1, 1});
  for (const ScoredPlan& start : best_first(pool.found.all())) {
    if (starts.taken() == kFew) break;
    if (starts.take(start, pool.found.best())) improve_from(pool, start);
  }
  return pool.found.best() >= kMayStillWin * pool.to_beat();
}

// Of the plans found so far.
SearchResult chosen_result(PoolState& pool) {
  SearchResult result;
  const ScoredPlan chosen = polish_on(pool, choose(pool, result.left_out));
  result.plan = with_forecast(pool.request, chosen);
  choose_round(pool.request, result.plan);
  result.worth = pool.request.worth(result.plan);
  int largest = *pool.request.minibatch;
  for (const ScoredPlan& plan : pool.found.all()) largest = std::max(largest, plan.plan.minibatch);
  result.bound = throughput_bound(pool.request.cluster, pool.request.profile, largest);
  result.exact = pool.exact;
  result.considered = considered(pool.found.all());
  result.considered.insert(result.considered.end(), pool.refused.begin(), pool.refused.end());
  return result;
}

// What steps and polishing make of the plans found so far.
SearchResult improved_result(PoolState& pool) {
  if (!pool.exact) {
    improve_best(pool);
    exchange(pool);
    polish_best(pool);
    if (pool.effort.exchanges_again) exchange(pool);
  }
  return chosen_result(pool);
}

}  // namespace

void keep_better(BestPlans& best, const ScoredPlan& plan) {
  const auto name = std::tuple(plan.plan.system, plan.plan.sync, plan.plan.virtual_workers.size());
  const auto [known, is_new] = best.emplace(name, plan);
  if (!is_new && plan.worth > known->second.worth) known->second = plan;
}

double best_worth(const FoundInPool& found) {
  double best = 0;
  for (const auto& [name, worth] : found.rows) best = std::max(best, worth);
  return best;
}

RowNames rows_worth(const FoundInPool& found, double worth) {
  RowNames names;
  for (const auto& [name, best] : found.rows) {
    if (best > 0 && best >= worth) names.insert(name);
  }
  return names;
}

FoundInPool search_pool(const PlanRequest& request, const SearchOptions& options,
                        const std::vector<SeedPlanner>& seeds, CutCache& cuts,
                        const std::shared_ptr<SimulatedPlans>& simulated,
                        std::optional<Again> again) {
  PoolState pool(request, options, seeds, cuts, simulated, std::move(again));
  for (const SearchRow& row : pool.rows) pool.enter(row, row.minibatch);
  seed_all(pool, true);
  bool first = true;
  for (const SearchRow& row : pool.rows) {
    if (pool.rows.size() > 1 && !explored(pool, row)) continue;
    explore(pool, row, first);
    first = false;
  }
  seed_all(pool, false);
  SearchResult result;
  if (may_win(pool)) {
    result = improved_result(pool);
  } else {
    result.worth = pool.found.best();
  }
  result.simulations = pool.scores.simulations();
  result.actions = pool.scores.actions();
  FoundInPool found{std::move(result), {}, {}, {}};
  for (const SearchRow& row : pool.rows) {
    found.rows[name_of(row)] = 0;
    if (row.parts.planner == PlannerRule::data_parallel) found.quick.insert(name_of(row));
  }
  for (const ScoredPlan& plan : pool.found.all()) {
    double& of_row = found.rows[name_of(pool.spaces[plan.space]->row())];
    of_row = std::max(of_row, plan.worth);
    keep_better(found.best, plan);
  }
  return found;
}

SearchResult annealed(const PlanRequest& request, const SearchOptions& options, CutCache& cuts,
                      const std::shared_ptr<SimulatedPlans>& simulated, const BestPlans& plans) {
  PoolState pool(request, options, {}, cuts, simulated, std::nullopt);
  pool.exact = false;
  anneal_best(pool, plans);
  if (pool.found.all().empty()) return {};
  SearchResult result = chosen_result(pool);
  result.simulations = pool.scores.simulations();
  result.actions = pool.scores.actions();
  return result;
}

}  // namespace hetpipe
