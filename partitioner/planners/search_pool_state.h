// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/planners/search_effort.h"
#include "partitioner/planners/search_pool.h"
#include "partitioner/planners/search_run.h"

namespace hetpipe {

// What a search of one pool works on, and has found so far.
struct PoolState {
  PoolState(const PlanRequest& given, const SearchOptions& options,
            const std::vector<SeedPlanner>& seed_planners, CutCache& known_cuts,
            const std::shared_ptr<SimulatedPlans>& simulated, std::optional<Again> once_more);
  PoolState(const PoolState&) = delete;
  PoolState& operator=(const PoolState&) = delete;

  double to_beat() const { return again ? again->to_beat : 0; }
  // The space of a row and a minibatch: plans that are added from now on are of it.
  SearchSpace& enter(const SearchRow& row, int minibatch);

  std::optional<Again> again;
  PlanRequest request;  // with the minibatch that rows without a planner of their own take
  const std::vector<SeedPlanner>& seeds;
  int devices;
  std::vector<SearchRow> rows;
  SearchEffort effort;
  std::int64_t budget;  // actions
  PlanScores scores;
  FoundPlans found;
  std::vector<double> speeds;  // [kind], samples/s
  CutCache& cuts;
  CompositionPool compositions;
  std::vector<std::unique_ptr<SearchSpace>> spaces;  // by row and minibatch
  std::vector<SearchCandidate> refused;
  std::vector<std::string> why_not;  // rows of which nothing runs, and the reason
  double seeds_best = 0;
  bool exact = true;
};

RowName name_of(const SearchRow& row);

// In pools of more than 64 devices HetPipe's planner takes too long, and so do all compositions of
// all rows and steps from many plans.
inline constexpr int kLargePool = 64;
inline constexpr double kMayWin = 0.93;  // of what is to be beaten, before any step

// Adds the plans of the others, quick ones or those that take longer.
void seed_all(PoolState& pool, bool quick);

// Steps from a plan; from the best ones that Starts takes.
void improve_from(PoolState& pool, const ScoredPlan& start);
void improve_best(PoolState& pool);
// The best plans under each row's system once more, and steps from those that come near the best.
void exchange(PoolState& pool);
// The cuts of a plan; of the best ones.
ScoredPlan polish_on(PoolState& pool, ScoredPlan plan);
void polish_best(PoolState& pool);
// Of these plans, found in the same pool, those near the best for a short time each, and the best
// that comes of them for longer.
void anneal_best(PoolState& pool, const BestPlans& plans);

}  // namespace hetpipe
