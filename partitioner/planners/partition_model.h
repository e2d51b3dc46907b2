// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/cost/pipeline_bound.h"
#include "partitioner/planners/partition.h"
#include "partitioner/profile/profile.h"

// Tables for the search for a partition, as plain arrays made once: costs as prefix
// sums over the layers, links, which tensors cross which cut, which devices are interchangeable.
namespace hetpipe {

inline std::size_t at_index(int i) { return static_cast<std::size_t>(i); }

struct PartitionDevice {
  int symmetry = 0;  // equal for devices that may change places
  int node = 0;      // counts the nodes of these devices
  std::int64_t memory = 0;
  std::shared_ptr<const KindTables> tables;

  const std::vector<double>& compute() const { return tables->compute; }
  // Per layer: bytes per micro-batch.
  const std::vector<std::int64_t>& output() const { return tables->costs->output_bytes; }
  const Footprints& footprints() const { return tables->footprints; }
};

struct PartitionModel {
  int layers = 0;
  int stages = 0;
  int micro_batches = 1;
  std::vector<PipelineBound> needs;  // [position]
  std::vector<PartitionDevice> devices;
  std::vector<std::vector<int>> alike_before;  // [node]: alike ones that an order must use first
  std::vector<std::vector<Link>> links;        // [from][to] between devices
  std::vector<std::int64_t> least_output;      // per layer, over the devices
  std::shared_ptr<const ModelCuts> cuts;
  bool has_skips = false;  // or tied weights, which may come from any earlier stage too
};

PartitionModel partition_model(const Cluster& cluster, const Profile& profile,
                               const PartitionRequest& request);

}  // namespace hetpipe
