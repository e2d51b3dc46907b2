// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/planners/search_run.h"

// Single steps of the search from one plan to another.
namespace hetpipe {

constexpr double kBetter = 1 + 1e-9;  // times: what counts as more

// Simulates the plan; where it is better it becomes the best one, of the same space.
bool take_over(FoundPlans& found, const Plan& plan, ScoredPlan& best);

// Virtual workers of the same kinds on like nodes with the same cuts: [group] of indices.
std::vector<std::vector<std::size_t>> alike_workers(const Cluster& cluster, const Plan& plan);

// One layer across cut k of the virtual workers named: +1 to the stage before it, -1 from it.
// Nothing where a stage has no layer left.
std::optional<Plan> moved_cut(Plan plan, const std::vector<std::size_t>& workers, std::size_t k,
                              int by);

// The devices of stages j and k change places, each with as many layers as before.
Plan exchanged_stages(Plan plan, const std::vector<std::size_t>& workers, std::size_t j,
                      std::size_t k);

}  // namespace hetpipe
