// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/allocation/allocation.h"
#include "launch/train/session.h"
#include "partitioner/cluster/cluster.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Called by all ranks together: devices and links of their hosts, measured as hetpipe probe does,
// or found where that was done before for the same devices. Where ranks compute on processors,
// those do to which `allocation` gave a GPU, if it knows. Notes, for people, and the value count on
// rank 0 alone. UserError and MachineFailed as round().
Cluster probed_cluster(const TrainCall& call, Transport& transport,
                       const std::vector<std::string>& hosts, const Allocation& allocation,
                       std::vector<std::string>& notes);

}  // namespace hetpipe
