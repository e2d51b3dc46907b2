// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "partitioner/cost/memory_bound.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/planners/planner.h"

// Whether the stages of PipeDream's dynamic programme have the memory. It knows neither how many
// stages come before or behind, nor which devices: a stage counts as if each device behind it were
// a stage, and is to fit every kind of device, the samples split evenly.
namespace hetpipe {

class PipedreamMemory {
 public:
  // `plan`: everything of it but its stages. Minibatches of `batch` samples, `in_flight` of them.
  PipedreamMemory(const PlanRequest& request, const Plan& plan, int batch, int in_flight);

  // How many stages may come behind one of the layers [first, end) on so many devices, at most;
  // below 0: none fits.
  int most_behind(int first, int end, int replicas);

 private:
  struct Kind {
    int index = 0;  // of Cluster::kinds
    std::int64_t memory = 0;
    std::vector<std::shared_ptr<const KindTables>> tables;  // [replicas], made when first asked for
  };

  const Footprints& footprints(Kind& kind, int replicas);

  MemoryRule rule_;
  int samples_;  // of a micro-batch
  bool late_;    // W is apart from B
  const PlanRequest& request_;
  std::shared_ptr<ModelTables> tables_;
  int passes_;  // of an action
  Updates updates_;
  std::vector<Kind> kinds_;
  std::vector<MemoryBound> needs_;  // by the stages behind, as far as their number counts
};

}  // namespace hetpipe
