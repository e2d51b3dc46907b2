// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "launch/allocation/allocation.h"
#include "launch/train/session.h"
#include "partitioner/profile/profile.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// What a plan is made for where no cluster file says it: the devices of the ranks that are here,
// and the model measured on them.
struct Ground {
  Cluster cluster;  // nodes by host name, each with a device for each rank that has one
  Profile profile;
  std::vector<std::string> free_nodes;  // with a rank that has no device: for parameter servers
  std::vector<std::string> notes;       // for people
};

// Called by all ranks together once they know each other; nothing unless on_allocation(). Nodes
// and GPUs are those that Slurm gave (slurm) or of the ranks' hosts (ranks). Kinds and links are
// those of --pool; without it they are measured as hetpipe probe does, or found where that was done
// before for the same devices. One rank of each kind measures the model, where no --profile is
// given and it was not measured before. UserError and MachineFailed as round(); the value counts on
// rank 0 alone.
std::optional<Ground> take_ground(const TrainCall& call, Transport& transport,
                                  const std::vector<RankFacts>& facts);

}  // namespace hetpipe
