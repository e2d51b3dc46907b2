// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "partitioner/plan/plan.h"

// Which parameter-server shard holds which layer. One rule for workers, servers, simulator and
// tables.
namespace hetpipe {

// [layer] -> shard (index into PlanServer::nodes); -1 for a layer without parameters of its own.
//   default  layers with parameters go round-robin over the shards
//   local    a layer goes to the shard on the node of the stage that owns it; where virtual workers
//   keep it on
//            different nodes, to the node that most of them do (the first of those that tie).
//            UserError where none of these nodes has a shard.
std::vector<int> shard_of_layers(const Plan& plan, std::span<const std::int64_t> parameter_bytes);

}  // namespace hetpipe
