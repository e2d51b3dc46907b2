// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/cluster/cluster.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {

// The events of a simulation in the Trace Event Format's JSON, which Perfetto (ui.perfetto.dev) and
// chrome://tracing open: a process per node, a thread per device, a complete event ("X", in
// microseconds) per action that takes time. args hold kind, minibatch, micro-batch, chunk, virtual
// worker, stage and replica.
std::string chrome_trace(const Simulation& simulation, const Cluster& cluster);

}  // namespace hetpipe
