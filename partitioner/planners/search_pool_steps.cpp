// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <vector>

#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/search_pool_state.h"

namespace hetpipe {
namespace {

constexpr double kWorthExchanging = 0.95;  // of the best so far: worth improving
constexpr std::size_t kExchanged = 4;      // plans that exchange() improves
constexpr double kFurtherBehind = 0.85;    // of it, where lateness counts: worth polishing
constexpr std::size_t kPolishedBehind = 2;
constexpr int kPolishings = 3;               // of a plan
constexpr double kGainsOn = 1.02;            // of worth: what each must bring for another one
constexpr std::size_t kImprovedOfLarge = 4;  // plans that improve() starts from in large pools
constexpr std::size_t kAnnealed = 24;        // plans
constexpr std::size_t kAnnealedLonger = 3;   // of them
constexpr double kWorthAnnealing = 0.65;     // of the best
constexpr unsigned kWalks = 4;               // from the best of them
constexpr double kWalksOn = 1.002;           // times: what each must bring for another one
constexpr AnnealingLimits kShort{24'000, 12'000'000, 0};
constexpr AnnealingLimits kLong{96'000, 30'000'000, 1};

ScoredPlan polished(PoolState& pool, const ScoredPlan& chosen) {
  if (pool.exact || pool.devices > static_cast<int>(kSmallPool)) return chosen;
  pool.found.enter(chosen.space);
  // Rounds of many micro-batches take so long that a quarter would be over at once.
  const std::int64_t least = pool.effort.polishing * pool.scores.actions_of(chosen.plan);
  const std::int64_t actions = std::max(pool.budget / 4, least);
  return polish(*pool.spaces[chosen.space], pool.scores, pool.found, chosen, actions);
}

// A plan of a row of the pool, with the round that it has.
void anneal_in(PoolState& pool, const Plan& plan, const AnnealingLimits& limits) {
  for (SearchRow row : pool.rows) {
    if (row.request.system != plan.system || row.parts.sync != composition(plan).sync) continue;
    if (traits(row.parts.sync).rounds) row.request.round = plan.server->round;
    SearchSpace& space = pool.enter(row, plan.minibatch);
    if (!pool.found.add(plan, "search")) return;
    anneal(space, pool.scores, pool.found, pool.found.all().back(), limits);
    return;
  }
}

// The best few of those near the best.
std::vector<ScoredPlan> near_best(const BestPlans& plans, std::size_t most) {
  std::vector<ScoredPlan> near;
  for (const auto& [name, plan] : plans) near.push_back(plan);
  near = best_first(std::move(near));
  const double least = near.empty() ? 0 : kWorthAnnealing * near.front().worth;
  std::erase_if(near, [&](const ScoredPlan& plan) { return plan.worth < least; });
  if (near.size() > most) near.resize(most);
  return near;
}

// While a search compares plans, rounds have kLeastRound waves.
BestPlans in_best_rounds(const PlanRequest& request, const BestPlans& plans) {
  BestPlans best;
  for (ScoredPlan plan : near_best(plans, plans.size())) {
    if (traits(composition(plan.plan).sync).rounds) {
      choose_round(request, plan.plan);
      if (plan.plan.predicted) plan.worth = request.worth(plan.plan);
    }
    keep_better(best, plan);
  }
  return best;
}

BestPlans best_plans(const std::vector<ScoredPlan>& plans) {
  BestPlans best;
  for (const ScoredPlan& plan : plans) keep_better(best, plan);
  return best;
}

}  // namespace

void improve_from(PoolState& pool, const ScoredPlan& start) {
  pool.found.enter(start.space);
  pool.scores.allow(pool.budget / 4);
  improve(*pool.spaces[start.space], pool.scores, pool.found, start, pool.speeds,
          pool.effort.several_cuts);
}

void improve_best(PoolState& pool) {
  Starts starts(pool.effort.starts);
  for (const ScoredPlan& start : best_first(pool.found.all())) {
    if (pool.devices > kLargePool && starts.taken() == kImprovedOfLarge) return;
    if (starts.take(start, pool.found.best())) improve_from(pool, start);
  }
}

void exchange(PoolState& pool) {
  if (pool.devices > static_cast<int>(kSmallPool) || pool.rows.size() == 1) return;
  const std::size_t before = pool.found.all().size();
  for (const SearchRow& row : pool.rows) {
    pool.scores.allow(pool.budget / 8);
    transplant(pool.enter(row, row.minibatch), pool.scores, pool.found, Depths::near);
  }
  const std::vector<ScoredPlan> others(
      pool.found.all().begin() + static_cast<std::ptrdiff_t>(before), pool.found.all().end());
  std::size_t improved = 0;
  for (const ScoredPlan& start : best_first(others)) {
    if (start.worth < kWorthExchanging * pool.found.best() || improved++ == kExchanged) return;
    improve_from(pool, start);
  }
}

// Again where its share of the work has ended it, as long as it gains.
ScoredPlan polish_on(PoolState& pool, ScoredPlan plan) {
  for (int i = 0; i < kPolishings; ++i) {
    const double before = plan.worth;
    plan = polished(pool, plan);
    if (!pool.scores.spent() || plan.worth < kGainsOn * before) break;
  }
  return plan;
}

// The best ones that differ in row, number of virtual workers or of devices: the best of all may
// be another one then. Where late updates count, fewer and longer pipelines may be best, whose
// cuts gain most: of those that are further behind some, too.
void polish_best(PoolState& pool) {
  if (pool.devices > static_cast<int>(kSmallPool)) return;
  std::set<std::array<std::size_t, 3>> tried;  // space, virtual workers, devices
  const auto polish_some = [&](double least, std::size_t most) {
    std::size_t begun = 0;
    for (const ScoredPlan& start : best_first(pool.found.all())) {
      if (start.worth < least * pool.found.best() || begun == most) return;
      const std::size_t workers = start.plan.virtual_workers.size();
      if (!tried.insert({start.space, workers, devices_of(start.plan).size()}).second) continue;
      polish_on(pool, start);
      ++begun;
    }
  };
  polish_some(pool.effort.worth_polishing, pool.effort.polished);
  if (pool.request.weighs_lateness() && pool.effort.worth_polishing > kFurtherBehind) {
    polish_some(kFurtherBehind, kPolishedBehind);
  }
}

void anneal_best(PoolState& pool, const BestPlans& plans) {
  for (const ScoredPlan& start : near_best(in_best_rounds(pool.request, plans), kAnnealed)) {
    anneal_in(pool, start.plan, kShort);
  }
  for (const ScoredPlan& start : near_best(best_plans(pool.found.all()), kAnnealedLonger)) {
    anneal_in(pool, start.plan, kLong);
  }
  for (unsigned walk = kLong.walk + 1; walk <= kWalks; ++walk) {
    const double before = pool.found.best();
    if (before == 0) return;
    const Plan best = best_first(pool.found.all()).front().plan;
    anneal_in(pool, best, {kLong.steps, kLong.actions, walk});
    if (pool.found.best() < kWalksOn * before) return;
  }
}

}  // namespace hetpipe
