// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "partitioner/planners/search.h"
#include "partitioner/planners/search_space.h"

// The plans of the other planners, which the search starts from.
namespace hetpipe {

struct Seed {
  std::string name;
  // UserError where the planner refuses, or has none that is worth so much.
  std::function<Plan(double least_worth)> plan;
  // samples/s that no plan of it can exceed; infinite if no quick bound is known.
  double bound = 0;
  std::string policy;     // of HetPipe, or empty
  bool predicted = true;  // by simulate()
};

// Of one row, the quick ones or the others: HetPipe's policies where the schedule is theirs, the
// planner of the row, and `more`. kind_speed as in search_compositions.h, `tables` as in
// PartitionRequest.
std::vector<Seed> seeds_of(const SearchRow& row, std::span<const double> kind_speed,
                           const std::vector<SeedPlanner>& more, bool quick,
                           const std::shared_ptr<ModelTables>& tables);

}  // namespace hetpipe
