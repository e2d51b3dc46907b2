// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

// Ids are types: a stage number cannot be passed where a rank is expected. All count from 0.
namespace hetpipe {

template <class Tag>
struct Id {
  int value = 0;

  constexpr Id() = default;
  constexpr explicit Id(int v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
};

using Rank = Id<struct RankTag>;                      // in the job's world
using NodeId = Id<struct NodeTag>;                    // in Cluster::nodes
using VirtualWorkerId = Id<struct VirtualWorkerTag>;  // in Plan::virtual_workers
using StageId = Id<struct StageTag>;                  // inside its virtual worker
using ShardId = Id<struct ShardTag>;                  // parameter-server shard

// Minibatch: counts the minibatches of one virtual worker. Wave: Nm consecutive minibatches of one
// virtual worker. Label: number of waves, of all virtual workers, that a snapshot contains.
using Minibatch = std::int64_t;
using Wave = std::int64_t;
using Label = std::int64_t;

}  // namespace hetpipe

template <class Tag>
struct std::hash<hetpipe::Id<Tag>> {
  std::size_t operator()(hetpipe::Id<Tag> id) const noexcept { return std::hash<int>{}(id.value); }
};
