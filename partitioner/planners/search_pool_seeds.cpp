// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/planners/allocation.h"
#include "partitioner/planners/search_pool_state.h"
#include "partitioner/planners/search_seeds.h"

namespace hetpipe {
namespace {

constexpr double kWorthImproving = 0.75;  // of the best so far: what a planner's plan must be

// In large pools HetPipe's planner itself takes minutes: its policies' virtual workers are cut
// here, and only those that could still win.
void seed_policy(PoolState& pool, const SearchRow& row, const std::string& policy, double bound) {
  const auto refuse = [&](const std::string& why) {
    pool.refused.push_back({policy, row.request.system, 0, why});
  };
  if (bound < pool.found.best()) {
    refuse(format("cannot exceed %.4g samples/s with any partition", bound));
    return;
  }
  try {
    const Allocation composition =
        allocate(pool.request.cluster, policy, pool.speeds, pool.request.virtual_workers);
    SearchSpace& space = pool.enter(row, row.minibatch);
    pool.scores.allow(pool.budget / 16);
    const auto plan = deep_plan(space, pool.scores, composition);
    if (!plan || !pool.found.add(*plan, policy)) refuse("it does not fit");
  } catch (const UserError& error) {
    refuse(error.what());
  }
}

// The plans of the others, as they are.
void seed(PoolState& pool, const SearchRow& row, bool quick) {
  for (const Seed& seed : seeds_of(row, pool.speeds, pool.seeds, quick, pool.cuts.tables)) {
    if (pool.again && !pool.again->policies && !seed.policy.empty()) continue;
    if (pool.devices > kLargePool && !seed.policy.empty()) {
      seed_policy(pool, row, seed.policy, seed.bound);
      continue;
    }
    try {
      const Plan plan =
          seed.plan(std::max(kWorthImproving * pool.found.best(), kMayWin * pool.to_beat()));
      pool.enter(row, plan.minibatch);
      // What was looked at is not all there is at another minibatch.
      pool.exact = pool.exact && plan.minibatch == row.minibatch;
      if (seed.predicted) pool.scores.note(plan, plan.predicted->throughput);
      if (const auto worth = pool.found.add(plan, seed.name)) {
        pool.seeds_best = std::max(pool.seeds_best, *worth);
      }
    } catch (const UserError& error) {
      pool.refused.push_back({seed.name, row.request.system, 0, error.what()});
    }
  }
}

}  // namespace

// Quick planners before the search's own work; what takes longer after it, when planners can give
// up on what is worth less. HetPipe's policies last: in large pools many cannot reach what the
// other planners did. Of systems that differ in nothing that a planner knows (in large pools: but
// for the memory of weights) only the first is asked; the others take its plans over.
void seed_all(PoolState& pool, bool quick) {
  std::vector<System> seen;
  const auto is_hetpipe = [](const SearchRow& row) {
    return row.parts.planner == PlannerRule::hetpipe;
  };
  for (const SearchRow& row : pool.rows) {
    const bool known = std::any_of(seen.begin(), seen.end(), [&](const System& other) {
      return other.planner == row.parts.planner && other.schedule == row.parts.schedule &&
             other.sync == row.parts.sync &&
             (other.weights == row.parts.weights || pool.devices > kLargePool);
    });
    seen.push_back(row.parts);
    if (!known && !is_hetpipe(row)) seed(pool, row, quick);
  }
  // Those of rounds and of the servers' optimizer are made of the plans without.
  for (const SearchRow& row : pool.rows) {
    const SyncTraits& sync = traits(row.parts.sync);
    const bool again = pool.rows.size() > 1 && (sync.rounds || sync.steps);
    if (is_hetpipe(row) && !again) seed(pool, row, quick);
  }
}

}  // namespace hetpipe
