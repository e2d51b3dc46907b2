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

// Those of the pool that the plan does not use.
std::vector<DeviceName> idle_devices(const Cluster& cluster, const Plan& plan);

// Virtual workers of the same kinds on like nodes with the same cuts: [group] of indices.
std::vector<std::vector<std::size_t>> alike_workers(const Cluster& cluster, const Plan& plan);

// Cuts next to each other: cut k is between stages k and k + 1.
struct CutRun {
  std::size_t first = 0;
  std::size_t last = 0;
};

// Of so many stages: each cut by itself, or all runs of several.
enum class Cuts { single, several };
std::vector<CutRun> cut_runs(std::size_t stages, Cuts cuts);

// One layer across each cut of the run, of the virtual workers named: +1 to the stage before it, -1
// from it. Stages between two of these cuts keep their number of layers. Nothing where a stage has
// no layer left.
std::optional<Plan> moved_cuts(Plan plan, const std::vector<std::size_t>& workers, CutRun run,
                               int by);

// The devices of stages j and k change places, each with as many layers as before.
Plan exchanged_stages(Plan plan, const std::vector<std::size_t>& workers, std::size_t j,
                      std::size_t k);

}  // namespace hetpipe
