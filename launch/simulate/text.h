// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/simulator/simulate.h"

// The output of `hetpipe simulate`, as text.
namespace hetpipe {

// How long a replay took, and whose times it had.
std::string replayed_text(const std::string& file, const Replayed& replayed);

// A row per device.
std::string simulation_table(const Plan& plan, const Cluster& cluster,
                             const Simulation& simulation);

}  // namespace hetpipe
