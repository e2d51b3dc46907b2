// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_pool_state.h"

#include <utility>

namespace hetpipe {
namespace {

PlanRequest fixed_minibatch(PlanRequest request) {
  check_request(request);
  request.policy.reset();
  if (!request.minibatch) request.minibatch = default_minibatch(request);
  return request;
}

}  // namespace

RowName name_of(const SearchRow& row) { return {row.request.system, row.request.sync}; }

PoolState::PoolState(const PlanRequest& given, const SearchOptions& options,
                     const std::vector<SeedPlanner>& seed_planners, CutCache& known_cuts,
                     const std::shared_ptr<SimulatedPlans>& simulated,
                     std::optional<Again> once_more)
    : again(std::move(once_more)),
      request(fixed_minibatch(given)),
      seeds(seed_planners),
      devices(static_cast<int>(given.cluster.devices().size())),
      rows(search_rows(given)),
      effort(search_effort(request.cluster)),
      budget(options.actions > 0 ? options.actions : effort.actions),
      scores(request.cluster, request.profile, simulated),
      found(request, scores),
      speeds(kind_speeds(request, *request.minibatch)),
      cuts(known_cuts),
      compositions(request, speeds, cuts, effort.without_each) {
  if (!again) return;
  std::erase_if(rows, [&](const SearchRow& row) { return !again->rows.contains(name_of(row)); });
}

SearchSpace& PoolState::enter(const SearchRow& row, int minibatch) {
  std::size_t space = 0;
  const auto is_of = [&](const SearchSpace& known) {
    const PlanRequest& of = known.row().request;
    return of.system == row.request.system && of.sync == row.request.sync &&
           of.round == row.request.round && known.minibatch() == minibatch;
  };
  while (space < spaces.size() && !is_of(*spaces[space])) {
    ++space;
  }
  if (space == spaces.size()) {
    spaces.push_back(std::make_unique<SearchSpace>(row, minibatch, cuts, compositions.packings(),
                                                   effort.cutting));
  }
  found.enter(space);
  if (request.progress) request.progress("plans of " + row.request.system);
  return *spaces[space];
}

}  // namespace hetpipe
