// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/fields.h"
#include "partitioner/cluster/cluster.h"

// The allocation that a scheduler gave to this job, or a launcher to these ranks, as a cluster.
// Plain values.
namespace hetpipe {

struct AllocatedNode {
  std::string name;
  std::vector<std::string> gpus{};      // of each that the job was given, its type; "": not said
  std::vector<std::string> features{};  // as the administrator has named them
  bool answers = true;                  // false: the scheduler considers it down
};
constexpr auto fields_of(Type<AllocatedNode>) {
  return fields<&AllocatedNode::name, &AllocatedNode::gpus, &AllocatedNode::features,
                &AllocatedNode::answers>;
}

struct Allocation {
  std::string of;           // "Slurm job 17", "the hosts of these ranks"
  bool gpus_known = false;  // to the scheduler: then a node without GPUs has none for this job
  std::vector<AllocatedNode> nodes;
};
constexpr auto fields_of(Type<Allocation>) {
  return fields<&Allocation::of, &Allocation::gpus_known, &Allocation::nodes>;
}

// The hosts of these ranks, each once, in rank order.
Allocation hosts_allocation(const std::vector<std::string>& host_of_rank);

// The nodes that answer, as a cluster with kinds and links of `pool`. A node that the pool names
// has its devices, as many as the job was given; on any other each GPU is of the pool's kind, or
// the catalogue's, that its type says ("titanv" for titan-v) or, without one, a feature of the
// node. UserError, with all problems: a GPU of unknown type.
Cluster cluster_of(const Allocation& allocation, const Cluster& pool, const std::string& pool_file);

// The same without a cluster file: GPU types become device types of which nothing else is known.
Cluster plain_cluster(const Allocation& allocation);

// Whether a scheduler's type of GPU means this device type: "a100", "A100-40GB", "titanv".
bool means_kind(const std::string& type, const std::string& kind);

// The ranks that a launch gives to each node: one for each device, one where there is none (for a
// parameter server); nodes with devices first.
struct RanksOfNode {
  std::string node;
  int ranks = 0;
  int devices = 0;
};
std::vector<RanksOfNode> ranks_of_nodes(const Cluster& cluster);

// A cluster reduced to the ranks available: on each host the first ranks have its devices, in
// their order. What is left over on either side is reported in `notes`.
struct Seats {
  Cluster cluster;                // nodes with ranks
  std::vector<std::string> free;  // nodes that have a rank more than devices, once each
  std::vector<std::optional<DeviceName>> device_of_rank;  // by rank; nothing: it has none
  std::vector<std::string> notes;
};
Seats seats_of(const Cluster& cluster, const std::vector<std::string>& host_of_rank);

}  // namespace hetpipe
