// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "partitioner/plan/plan.h"
#include "runtime/transport/link_emulation.h"

namespace hetpipe {

// What one rank does. A worker may also host a server shard. Neither: a spare rank,
// which waits for the end.
struct Role {
  struct Worker {
    VirtualWorkerId virtual_worker;
    std::vector<StageId> stages;  // one; of an interleaved schedule all chunks, in their order
    int replica = 0;              // of these stages
    int replicas = 1;
    DeviceName device;
    StageId stage() const { return stages.front(); }
  };
  std::optional<Worker> worker;
  std::optional<ShardId> shard;
  std::string node;
};
std::string to_string(const Role::Worker& worker);  // "virtual worker 0, stage 1"
std::string to_string(
    const Role& role);  // "virtual worker 0, stage 1 on n0:1", "parameter server 0 on n2"

struct Roles {
  std::vector<Role> of_rank;
  std::vector<std::vector<std::vector<Rank>>> worker;  // [virtual worker][stage][replica]
  std::vector<Rank> server;                            // [shard]

  // Where checkpoints are collected and stops are agreed on: the first server or, without one, the
  // first virtual worker's first stage.
  Rank coordinator() const { return server.empty() ? worker.at(0).at(0).at(0) : server.front(); }
};

enum class Matching { plan_order, hosts };

// Who does what. plan_order: ranks follow the plan, workers first, then servers. hosts: a worker
// goes to the rank on its node, by host name and order on that host; servers take the remaining
// ranks, on their nodes where possible; ranks beyond those that the plan needs are spare. UserError
// when hosts and plan do not match. host_of_rank has at least as many entries as the plan needs
// ranks.
Roles assign_roles(const Plan& plan, const std::vector<std::string>& host_of_rank,
                   Matching matching);

// Emulated links between all ranks, by the devices of their roles.
LinkTable make_link_table(const Cluster& cluster, const Roles& roles);

}  // namespace hetpipe
