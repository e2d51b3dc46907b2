// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/placement.h"
#include "partitioner/planners/partition.h"

namespace hetpipe {
namespace {

constexpr int kBarWidth = 10;

std::string milliseconds(double seconds) { return format("%.3g", seconds * 1e3); }

std::string bar(double share) {
  const int full = static_cast<int>(std::lround(share * kBarWidth));
  std::string text;
  for (int i = 0; i < kBarWidth; ++i) text += i < full ? "█" : "░";
  return text + format(" %3.0f %%", share * 100);
}

std::string layer_names(const Profile& profile, int first, int end) {
  const auto& from = profile.layers[static_cast<std::size_t>(first)].name;
  const auto& to = profile.layers[static_cast<std::size_t>(end - 1)].name;
  return end - first == 1 ? from : from + ".." + to;
}

std::vector<Partition> partitions_of(const Plan& plan, const Cluster& cluster,
                                     const Profile& profile) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  std::vector<Partition> parts;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    parts.push_back(evaluate_plan(cluster, profile, plan, VirtualWorkerId{static_cast<int>(vw)}));
  }
  return parts;
}

// "conv1 conv2 fc (3 of 7 layers, 1.2 MB)" of each shard.
std::string servers_text(const Plan& plan, const Profile& profile) {
  std::vector<std::int64_t> bytes;
  for (const ProfileLayer& layer : profile.layers) {
    bytes.push_back(layer.shares.empty() ? layer.parameter_bytes : 0);
  }
  const std::vector<int> shard = shard_of_layers(plan, bytes);
  std::string text;
  for (std::size_t s = 0; s < plan.server->nodes.size(); ++s) {
    std::vector<std::string> names;
    double sum = 0;
    for (std::size_t l = 0; l < shard.size(); ++l) {
      if (shard[l] != static_cast<int>(s)) continue;
      names.push_back(profile.layers[l].name);
      sum += static_cast<double>(bytes[l]);
    }
    text += format("  shard %zu on %s: %s in %zu layers: ", s, plan.server->nodes[s].c_str(),
                   format_bytes(sum).c_str(), names.size()) +
            (names.empty() ? "none" : join(names, " ")) + "\n";
  }
  return text;
}

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

std::string plan_table(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  const std::vector<Partition> parts = partitions_of(plan, cluster, profile);
  double bottleneck = 0;
  for (const Partition& part : parts) bottleneck = std::max(bottleneck, part.bottleneck);
  Table table({"worker", "stage", "device", "kind", "layers", "forward ms", "backward ms",
               "receive ms", "memory", "of", "share of the bottleneck"});
  for (std::size_t vw = 0; vw < parts.size(); ++vw) {
    const Partition& part = parts[vw];
    for (std::size_t k = 0; k < part.devices.size(); ++k) {
      const PartCost& cost = part.costs[k];
      const DeviceKind& kind = cluster.kind_of(part.devices[k]);
      table.add({k == 0 ? std::to_string(vw) : "", std::to_string(k), to_string(part.devices[k]),
                 kind.name, layer_names(profile, k == 0 ? 0 : part.ends[k - 1], part.ends[k]),
                 milliseconds(cost.forward_seconds), milliseconds(cost.backward_seconds),
                 milliseconds(cost.receive_activations_seconds + cost.receive_gradients_seconds),
                 format_bytes(static_cast<double>(part.ledgers[k].total())),
                 format_bytes(static_cast<double>(kind.memory)),
                 bar(bottleneck > 0 ? cost.total() / bottleneck : 0)});
    }
  }
  std::string text =
      format("%s under %s: %zu virtual worker%s, minibatch %d, Nm = %d in flight\n\n",
             plan.model.c_str(), plan.system.c_str(), parts.size(), parts.size() == 1 ? "" : "s",
             plan.minibatch, plan.in_flight);
  text += table.text() + "\n";
  text += "largest part time " + format_seconds(bottleneck) + " per minibatch";
  if (plan.predicted) {
    text += format("; predicted throughput %.4g samples/s", plan.predicted->throughput);
  }
  text += "\n";
  if (!plan.server) return text;
  const long nm = plan.in_flight;
  const long d = plan.server->clock_distance;
  text += format(
      "D = %ld; a minibatch misses at most %ld updates of its own virtual worker (s_local = Nm "
      "- 1)\n  and %ld of all (s_global = (D + 1) Nm + Nm - 2)\n",
      d, nm - 1, (d + 1) * nm + nm - 2);
  text += "parameter server, placement " + plan.server->placement +
          (plan.server->hosted ? ", inside worker ranks" : "") + ":\n";
  return text + servers_text(plan, profile);
}

std::string ledger_table(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  const std::vector<Partition> parts = partitions_of(plan, cluster, profile);
  std::string text;
  for (std::size_t vw = 0; vw < parts.size(); ++vw) {
    for (std::size_t k = 0; k < parts[vw].devices.size(); ++k) {
      const DeviceName& device = parts[vw].devices[k];
      const MemoryLedger& ledger = parts[vw].ledgers[k];
      const auto available = static_cast<double>(cluster.kind_of(device).memory);
      Table table({"", "bytes"});
      for (const LedgerLine& line : ledger.lines) {
        table.add({line.name, format_bytes(static_cast<double>(line.bytes))});
      }
      table.add({"total", format_bytes(static_cast<double>(ledger.total()))});
      text += format(
          "virtual worker %zu, stage %zu on %s: %.0f %% of %s\n", vw, k, to_string(device).c_str(),
          100 * static_cast<double>(ledger.total()) / available, format_bytes(available).c_str());
      text += table.text("  ");
    }
  }
  return text;
}

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
    std::vector<std::string> hosts;
    for (const auto& entry : ranks_per_host(plan)) hosts.push_back(entry.first);
    line += "-w " + join(hosts, ",") + " ";
  }
  return line + std::string(command);
}

}  // namespace hetpipe
