// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "partitioner/plan/plan.h"
#include "runtime/transport/link_emulation.h"

namespace hetpipe {

// What one rank does. A worker may host a server shard beside its stage.
struct Role {
  struct Worker {
    VirtualWorkerId virtual_worker;
    StageId stage;
    DeviceName device;
    Worker(VirtualWorkerId vw, StageId k, DeviceName d)
        : virtual_worker(vw), stage(k), device(std::move(d)) {}
  };
  std::optional<Worker> worker;
  std::optional<ShardId> shard;
  std::string node;
};
std::string to_string(
    const Role& role);  // "virtual worker 0, stage 1 on n0:1", "parameter server 0 on n2"

struct Roles {
  std::vector<Role> of_rank;
  std::vector<std::vector<Rank>> worker;  // [virtual worker][stage]
  std::vector<Rank> server;               // [shard]
};

enum class Matching { plan_order, hosts };

// Who does what. plan_order: ranks follow the plan, workers first, then servers. hosts: a worker
// goes to the rank on its node, by host name and order on that host; servers take the remaining
// ranks, on their nodes where possible. UserError when hosts and plan do not fit. host_of_rank has
// as many entries as the plan needs ranks.
Roles assign_roles(const Plan& plan, const std::vector<std::string>& host_of_rank,
                   Matching matching);

// Emulated links between all ranks, by the devices that their roles sit on.
LinkTable make_link_table(const Cluster& cluster, const Roles& roles);

}  // namespace hetpipe
