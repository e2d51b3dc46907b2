// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// A plan as text.
namespace hetpipe {

// Per virtual worker and stage: device, kind, layers by name, times, memory, share of the
// bottleneck; below it throughput, staleness and what each server holds.
std::string plan_table(const Plan& plan, const Cluster& cluster, const Profile& profile);

// Every stage's memory against its device's, a row per stage; stages that are alike share one.
std::string memory_table(const Plan& plan, const Cluster& cluster, const Profile& profile);

// The same, line by line.
std::string ledger_table(const Plan& plan, const Cluster& cluster, const Profile& profile);

// The launch lines of a plan; `command` is what every rank runs ("hetpipe train --plan plan.toml").
// Ranks are the workers in plan order, then the servers. Hosts are named only where the cluster is
// not emulated. threads: of each rank; several want as many cores.
std::string mpirun_line(const Plan& plan, const Cluster& cluster, std::string_view command,
                        int threads = 1);
std::string srun_line(const Plan& plan, const Cluster& cluster, std::string_view command,
                      int threads = 1);

}  // namespace hetpipe
