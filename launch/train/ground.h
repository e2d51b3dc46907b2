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

// What a plan is made for without a cluster file: the devices of the ranks of this launch,
// and the model measured on them.
struct Ground {
  Cluster cluster;  // nodes by host name, each with a device for each rank that has one
  Profile profile;
  std::vector<std::string> free_nodes;  // with a rank that has no device: for parameter servers
  std::vector<std::string> notes;       // for people
};

// Called by all ranks together once they know each other; nothing unless on_allocation(). Nodes
// and GPUs are those that Slurm gave (slurm) or of the ranks' hosts (ranks). Kinds and links are
// those of --pool; without it they are measured as by hetpipe probe, or taken from a measurement
// of the same devices. One rank of each type measures the model, if no --profile is
// given and it was not measured earlier. UserError, MachineFailed as round(); the value is valid on
// rank 0 only.
std::optional<Ground> take_ground(const TrainCall& call, Transport& transport,
                                  const std::vector<RankFacts>& facts);

}  // namespace hetpipe
