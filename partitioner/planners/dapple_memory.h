// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "partitioner/cost/memory_bound.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/planners/dapple_search.h"
#include "partitioner/planners/replicated.h"

// Whether the stages of DAPPLE's search have the memory: to the byte what the ledger says of the
// plan that is written from them.
namespace hetpipe {

class DappleMemory {
 public:
  // `plan`: everything of it but its stages. `kinds`: those of each node's devices.
  DappleMemory(const PlanRequest& request, const PlacedLayers& placed, const Plan& plan,
               std::vector<std::vector<int>> kinds);

  // Sets `recompute` where a stage does not fit without; false where one does not fit at all.
  bool settle(std::span<DappleStage> stages);

  // Of all that did not fit, what the nearest one lacked: "3.2 MiB on a v100". Empty: all fitted.
  std::string shortage() const;

 private:
  // A replica with the most samples of those on one kind of device.
  struct Replica {
    int kind = 0;
    int samples = 0;
  };

  const std::vector<MemoryBound>& needs_of(int stages);
  const std::vector<Replica>& replicas_of(const DappleStage& stage, int first, int end);
  bool fit(const std::vector<Replica>& replicas, int stage, int count, Keep keep);

  const PlanRequest& request_;
  const PlacedLayers& placed_;
  std::vector<std::vector<int>> kinds_;  // [node], of Cluster::kinds
  MemoryRule rule_;
  ScheduleRequest schedule_;
  int samples_;  // of a micro-batch
  bool late_;    // W is apart from B
  StageShares shares_;
  std::shared_ptr<ModelTables> tables_;
  int passes_;  // of an action
  Updates updates_;
  std::vector<std::int64_t> memory_;               // [kind]
  std::map<int, std::vector<MemoryBound>> needs_;  // [stages][stage]
  std::map<std::tuple<int, int, std::vector<int>>, std::vector<Replica>> replicas_;
  std::vector<int> ends_;     // of the stages looked at
  std::int64_t missing_ = 0;  // bytes, of what did not fit the least; 0: there is nothing
  int missing_on_ = 0;        // kind
};

}  // namespace hetpipe
