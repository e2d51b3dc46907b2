// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/allocation/allocation.h"
#include "launch/train/session.h"
#include "partitioner/cluster/cluster.h"
#include "runtime/transport/transport.h"

namespace hetpipe {

// Called by all ranks together: devices and links of their hosts, measured as by hetpipe probe,
// or taken from an earlier measurement of the same devices. If ranks compute on processors,
// those do to which `allocation` gave a GPU, if it knows. Notes and the value are valid on
// rank 0 only. UserError and MachineFailed as round().
Cluster probed_cluster(const TrainCall& call, Transport& transport,
                       const std::vector<std::string>& hosts, const Allocation& allocation,
                       std::vector<std::string>& notes);

}  // namespace hetpipe
