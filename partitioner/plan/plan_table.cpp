// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/plan/placement.h"
#include "partitioner/plan/system.h"

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

using Costs = std::vector<std::vector<StageCost>>;  // [virtual worker][stage]

Costs costs_of(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  Costs costs;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    costs.push_back(stage_costs(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)}));
  }
  return costs;
}

MemoryLedger ledger_of(const Plan& plan, const Cluster& cluster, const Profile& profile,
                       std::size_t vw, std::size_t k) {
  return stage_ledger(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)},
                      StageId{static_cast<int>(k)});
}

// Of the replica with the least.
std::int64_t memory_of(const Cluster& cluster, const PlanStage& stage) {
  std::int64_t least = cluster.kind_of(stage.devices.front()).memory;
  for (const DeviceName& device : stage.devices) {
    least = std::min(least, cluster.kind_of(device).memory);
  }
  return least;
}

// "n0:0", "n0:0 n0:1 n1:0", "n0:0 ... (12)".
std::string device_names(const std::vector<DeviceName>& devices) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> names;
  for (const DeviceName& device : devices) names.push_back(to_string(device));
  if (names.size() <= kMost) return join(names, " ");
  return names.front() + " ... " + names.back() + format(" (%zu)", names.size());
}

std::string kind_names(const Cluster& cluster, const PlanStage& stage) {
  std::vector<std::string> names;
  for (const DeviceName& device : stage.devices) {
    const std::string& name = cluster.kind_of(device).name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return join(names, " ");
}

// "vgg19 under hetpipe: 2 virtual workers, minibatch 32, Nm = 2 in flight", and what differs from
// the system's row.
std::string headline(const Plan& plan) {
  const std::size_t workers = plan.virtual_workers.size();
  std::string text = format("%s under %s", plan.model.c_str(), plan.system.c_str());
  std::vector<std::string> replaced;
  for (const std::string& part : {plan.schedule, plan.weights, plan.sync}) {
    if (!part.empty()) replaced.push_back(part);
  }
  if (!replaced.empty()) text += " with " + join(replaced, ", ");
  text += format(": %zu virtual worker%s, minibatch %d", workers, workers == 1 ? "" : "s",
                 plan.minibatch);
  if (plan.micro_batches > 1) text += format(" in %d micro-batches", plan.micro_batches);
  if (!has_flush(composition(plan).schedule)) {
    text += format(", Nm = %d in flight", plan.in_flight);
  }
  return text + "\n\n";
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
  const Costs costs = costs_of(plan, cluster, profile);
  double bottleneck = 0;
  for (const auto& worker : costs) {
    for (const StageCost& cost : worker) bottleneck = std::max(bottleneck, cost.total());
  }
  Table table({"worker", "stage", "device", "kind", "layers", "forward ms", "backward ms",
               "receive ms", "memory", "of", "share of the bottleneck"});
  for (std::size_t vw = 0; vw < costs.size(); ++vw) {
    for (std::size_t k = 0; k < costs[vw].size(); ++k) {
      const StageCost& cost = costs[vw][k];
      const PlanStage& stage = plan.virtual_workers[vw].stages[k];
      const MemoryLedger ledger = ledger_of(plan, cluster, profile, vw, k);
      table.add({k == 0 ? std::to_string(vw) : "", std::to_string(k), device_names(stage.devices),
                 kind_names(cluster, stage),
                 layer_names(profile, stage.first_layer, stage.end_layer),
                 milliseconds(cost.forward), milliseconds(cost.backward),
                 milliseconds(cost.receive()), format_bytes(static_cast<double>(ledger.total())),
                 format_bytes(static_cast<double>(memory_of(cluster, stage))),
                 bar(bottleneck > 0 ? cost.total() / bottleneck : 0)});
    }
  }
  std::string text = headline(plan) + table.text() + "\n";
  text += "largest part time " + format_seconds(bottleneck) + " per minibatch";
  if (plan.predicted) {
    text += format("; predicted throughput %.4g samples/s", plan.predicted->throughput);
  }
  text += "\n";
  if (!plan.server) return text;
  const long nm = plan.in_flight;
  const long d = plan.server->clock_distance;
  if (composition(plan).sync == SyncRule::wsp) {
    text += format(
        "D = %ld; a minibatch misses at most %ld updates of its own virtual worker (s_local = Nm "
        "- 1)\n  and %ld of all (s_global = (D + 1) Nm + Nm - 2)\n",
        d, nm - 1, (d + 1) * nm + nm - 2);
  }
  text += "parameter server, placement " + plan.server->placement +
          (plan.server->hosted ? ", inside worker ranks" : "") + ":\n";
  return text + servers_text(plan, profile);
}

std::string memory_table(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  // Stages with the same lines on as much memory share a row.
  struct Row {
    MemoryLedger ledger;
    std::int64_t available = 0;
    std::vector<DeviceName> devices;
  };
  std::vector<Row> rows;
  std::vector<std::string> names;  // of lines, in the order of their first appearance
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const PlanStage& stage = plan.virtual_workers[vw].stages[k];
      Row row{ledger_of(plan, cluster, profile, vw, k), memory_of(cluster, stage), stage.devices};
      for (const LedgerLine& line : row.ledger.lines) {
        if (std::find(names.begin(), names.end(), line.name) == names.end()) {
          names.push_back(line.name);
        }
      }
      const auto same = std::find_if(rows.begin(), rows.end(), [&](const Row& other) {
        return other.available == row.available && other.ledger == row.ledger;
      });
      if (same == rows.end()) {
        rows.push_back(std::move(row));
      } else {
        same->devices.insert(same->devices.end(), row.devices.begin(), row.devices.end());
      }
    }
  }
  std::vector<std::string> header{"memory of"};
  header.insert(header.end(), names.begin(), names.end());
  for (const char* name : {"total", "of", "full"}) header.emplace_back(name);
  Table table(header);
  for (const Row& row : rows) {
    std::vector<std::string> cells{device_names(row.devices)};
    for (const std::string& name : names) {
      std::int64_t bytes = 0;
      for (const LedgerLine& line : row.ledger.lines) bytes += line.name == name ? line.bytes : 0;
      cells.push_back(bytes > 0 ? format_bytes(static_cast<double>(bytes)) : "-");
    }
    const auto total = static_cast<double>(row.ledger.total());
    const auto available = static_cast<double>(row.available);
    cells.push_back(format_bytes(total));
    cells.push_back(format_bytes(available));
    cells.push_back(format("%.0f %%", 100 * total / available));
    table.add(cells);
  }
  return table.text();
}

std::string ledger_table(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  std::string text;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const PlanStage& stage = plan.virtual_workers[vw].stages[k];
      const MemoryLedger ledger = ledger_of(plan, cluster, profile, vw, k);
      const auto available = static_cast<double>(memory_of(cluster, stage));
      Table table({"", "bytes"});
      for (const LedgerLine& line : ledger.lines) {
        table.add({line.name, format_bytes(static_cast<double>(line.bytes))});
      }
      table.add({"total", format_bytes(static_cast<double>(ledger.total()))});
      text += format("virtual worker %zu, stage %zu on %s: %.0f %% of %s\n", vw, k,
                     device_names(stage.devices).c_str(),
                     100 * static_cast<double>(ledger.total()) / available,
                     format_bytes(available).c_str());
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
