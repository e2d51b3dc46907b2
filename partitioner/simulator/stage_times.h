// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// What each replica of each stage of a virtual worker takes, from the profile.
namespace hetpipe {

// costs_on of these updates, each kind and batch worked out once.
class CostTable {
 public:
  // `tables`: of the same profile; null: its own.
  CostTable(const Cluster& cluster, const Profile& profile, Updates updates,
            std::shared_ptr<ModelTables> tables = nullptr)
      : cluster_(cluster),
        profile_(profile),
        updates_(updates),
        tables_(tables ? std::move(tables) : std::make_shared<ModelTables>()) {}
  const LayerCosts& on(const DeviceKind& kind, int batch);
  const Cluster& cluster() const { return cluster_; }
  const Profile& profile() const { return profile_; }
  const std::shared_ptr<ModelTables>& tables() const { return tables_; }

 private:
  const Cluster& cluster_;
  const Profile& profile_;
  Updates updates_;
  std::shared_ptr<ModelTables> tables_;
  std::map<std::pair<const DeviceKind*, int>, std::shared_ptr<const LayerCosts>> costs_;
};

struct ReplicaTimes {
  const DeviceKind* kind = nullptr;
  int first_sample = 0;  // of a micro-batch, which is split among the replicas
  int samples = 0;
  double forward = 0;          // s per micro-batch
  double backward = 0;         // with the weight gradient; without recomputing
  double weight_gradient = 0;  //
  double update = 0;           // s per minibatch
};

// [stage][replica]. UserError where a replica would have no sample of a micro-batch.
using WorkerTimes = std::vector<std::vector<ReplicaTimes>>;
WorkerTimes worker_times(const Plan& plan, VirtualWorkerId vw, CostTable& costs);

}  // namespace hetpipe
