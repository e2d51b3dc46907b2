// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "base/index.h"
#include "base/text.h"
#include "partitioner/plan/plan_table.h"

namespace hetpipe {
namespace {

// (host, ranks) in the order of the plan, each host once.
std::vector<std::pair<std::string, int>> ranks_per_host(const Plan& plan) {
  std::vector<std::pair<std::string, int>> hosts;
  const auto add = [&](const std::string& host) {
    const auto at = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const auto& entry) { return entry.first == host; });
    if (at == hosts.end()) {
      hosts.emplace_back(host, 1);
    } else {
      ++at->second;
    }
  };
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      for (const DeviceName& device : stage.devices) add(device.node);
    }
  }
  if (plan.server_ranks() > 0) {
    for (const std::string& node : plan.server->nodes) add(node);
  }
  return hosts;
}

}  // namespace

std::string mpirun_line(const Plan& plan, const Cluster& cluster, std::string_view command,
                        int threads) {
  const int ranks = plan.worker_ranks() + plan.server_ranks();
  std::string line = format("mpirun -np %d ", ranks);
  if (threads > 1) line += "--bind-to none ";  // else each rank gets one core
  if (cluster.emulated()) {
    line += "--oversubscribe ";  // all ranks share this machine, which may have fewer cores
  } else {
    std::vector<std::string> hosts;
    for (const auto& [host, count] : ranks_per_host(plan)) {
      hosts.push_back(host + ":" + std::to_string(count));
    }
    line += "--host " + join(hosts, ",") + " ";
  }
  return line + std::string(command);
}

std::string srun_line(const Plan& plan, const Cluster& cluster, std::string_view command,
                      int threads) {
  const int ranks = plan.worker_ranks() + plan.server_ranks();
  // Without -K the other ranks would wait for one that was killed.
  std::string line = format("srun --mpi=pmix -K -n %d ", ranks);
  if (threads > 1) line += format("--cpus-per-task=%d --cpu-bind=cores ", threads);
  if (!cluster.emulated()) {
    const auto counts = ranks_per_host(plan);
    const bool alike = std::all_of(counts.begin(), counts.end(), [&](const auto& entry) {
      return entry.second == counts.front().second;
    });
    std::vector<std::string> hosts;
    for (const auto& [host, count] : counts) hosts.insert(hosts.end(), at(alike ? 1 : count), host);
    // Else Slurm would spread the ranks evenly over the hosts.
    if (!alike) line += "-m arbitrary ";
    line += "-w " + join(hosts, ",") + " ";
  }
  return line + std::string(command);
}

}  // namespace hetpipe
