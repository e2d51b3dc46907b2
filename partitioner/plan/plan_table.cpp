// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/plan/lateness.h"
#include "partitioner/plan/layer_names.h"
#include "partitioner/plan/placement.h"
#include "partitioner/plan/plan_table_parts.h"
#include "partitioner/plan/staleness.h"
#include "partitioner/plan/system.h"
#include "partitioner/profile/tied.h"

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

using Costs = std::vector<std::vector<StageCost>>;  // [virtual worker][stage]

Costs costs_of(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  check_plan(plan, "plan", &cluster, static_cast<int>(profile.layers.size()));
  Costs costs;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    costs.push_back(stage_costs(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)}));
  }
  return costs;
}

std::string kind_names(const Cluster& cluster, const PlanStage& stage) {
  std::vector<std::string> names;
  for (const DeviceName& device : stage.devices) {
    const std::string& name = cluster.kind_of(device).name;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return join(names, " ");
}

// Samples of a micro-batch that each replica of the stage takes: "32", "20+12", "8x4+3" (eight of
// four each).
std::string samples_text(const Plan& plan, std::size_t vw, const PlanStage& stage) {
  const int minibatch = plan.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
  const std::vector<int> samples = samples_of_replicas(stage, minibatch / plan.micro_batches);
  std::vector<std::string> parts;
  for (std::size_t r = 0, end = 0; r < samples.size(); r = end) {
    while (end < samples.size() && samples[end] == samples[r]) ++end;
    parts.push_back(end - r == 1 ? std::to_string(samples[r])
                                 : format("%zux%d", end - r, samples[r]));
  }
  return join(parts, "+");
}

// Whether stages take different numbers of samples: of replicas, or of unequal virtual workers.
bool has_shares(const Plan& plan) {
  return std::any_of(
      plan.virtual_workers.begin(), plan.virtual_workers.end(), [](const PlanVirtualWorker& vw) {
        return vw.minibatch || std::any_of(vw.stages.begin(), vw.stages.end(),
                                           [](const PlanStage& s) { return s.devices.size() > 1; });
      });
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
  if (!traits(composition(plan).schedule).has_flush) {
    text +=
        format(", %d minibatch%s in flight (Nm)", plan.in_flight, plan.in_flight == 1 ? "" : "es");
  }
  if (plan.precision != PrecisionChoice{}) text += ", in " + to_string(plan.precision);
  return text + "\n\n";
}

// "conv1 conv2 fc (3 of 7 layers, 1.2 MB)" of each shard.
std::string servers_text(const Plan& plan, const Profile& profile) {
  const std::vector<std::int64_t> bytes = own_parameter_bytes(profile);
  const std::vector<int> shard = shard_of_layers(plan, bytes);
  constexpr std::size_t kMost = 8;
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
            (names.empty() ? "none" : abridged(names, kMost)) + "\n";
  }
  return text;
}

// What the stages of the virtual workers say in the table, without their numbers and devices.
using Cells = std::vector<std::string>;

struct Rows {
  std::vector<std::string> workers;
  std::vector<Cells> cells;                      // [stage]
  std::vector<std::vector<DeviceName>> devices;  // [stage]
};

Rows rows_of(const Plan& plan, const Cluster& cluster, const Profile& profile, std::size_t vw,
             const std::vector<StageCost>& costs, double bottleneck) {
  Rows rows;
  rows.workers.push_back(std::to_string(vw));
  for (std::size_t k = 0; k < costs.size(); ++k) {
    const StageCost& cost = costs[k];
    const PlanStage& stage = plan.virtual_workers[vw].stages[k];
    const StageNeed need =
        fullest_replica(plan, cluster, profile, VirtualWorkerId{static_cast<int>(vw)},
                        StageId{static_cast<int>(k)});
    rows.devices.push_back(stage.devices);
    rows.cells.push_back({samples_text(plan, vw, stage), kind_names(cluster, stage),
                          layer_range(profile, stage.first_layer, stage.end_layer),
                          milliseconds(cost.forward), milliseconds(cost.backward),
                          milliseconds(cost.receive()),
                          format_bytes(static_cast<double>(need.ledger.total())),
                          format_bytes(static_cast<double>(need.memory)),
                          bar(bottleneck > 0 ? cost.total() / bottleneck : 0)});
  }
  return rows;
}

// Virtual workers that are alike share their rows where there are many.
std::vector<Rows> grouped(const std::vector<Rows>& workers) {
  constexpr std::size_t kMany = 16;
  std::size_t stages = 0;
  for (const Rows& rows : workers) stages += rows.cells.size();
  if (stages <= kMany) return workers;
  std::vector<Rows> groups;
  for (const Rows& rows : workers) {
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Rows& group) { return group.cells == rows.cells; });
    if (same == groups.end()) {
      groups.push_back(rows);
      continue;
    }
    same->workers.insert(same->workers.end(), rows.workers.begin(), rows.workers.end());
    for (std::size_t k = 0; k < rows.devices.size(); ++k) {
      auto& devices = same->devices[k];
      devices.insert(devices.end(), rows.devices[k].begin(), rows.devices[k].end());
    }
  }
  return groups;
}

// Samples/s if every virtual worker's busiest device computed all the time and nobody waited.
double throughput_without_waiting(const Plan& plan, const Costs& costs) {
  double sum = 0;
  for (std::size_t vw = 0; vw < costs.size(); ++vw) {
    std::map<DeviceName, double> busy;  // an interleaved schedule gives a device several stages
    double longest = 0;
    for (std::size_t k = 0; k < costs[vw].size(); ++k) {
      const DeviceName& device = plan.virtual_workers[vw].stages[k].devices.front();
      longest = std::max(longest, busy[device] += costs[vw][k].compute());
    }
    if (longest > 0) sum += plan.minibatch_of(VirtualWorkerId{static_cast<int>(vw)}) / longest;
  }
  return sum;
}

std::string throughput_text(const Plan& plan, const Costs& costs) {
  constexpr double kMostly = 0.9;  // above it waiting is no news
  const double throughput = plan.predicted->throughput;
  std::string text = format("; predicted throughput %.4g samples/s", throughput);
  if (plan.predicted->samples_factor > 1) {
    const bool damped = unseen_cost(composition(plan), plan.optimizer).serial == 1;
    text += format(
        "\n  (%.4g samples do not see each other's updates%s that an accuracy takes about %.3g "
        "times the least\n  number of samples: worth %.4g samples/s; --critical-batch)",
        unseen_samples(plan).all(), damped ? ", so" : ", and steps are not damped,\n  so",
        plan.predicted->samples_factor, throughput / plan.predicted->samples_factor);
  }
  const double most = throughput_without_waiting(plan, costs);
  if (most > 0 && throughput < kMostly * most) {
    text += format(
        "\n  (%.0f %% of what the stages could compute; the rest is waiting for "
        "messages, other stages or parameters)",
        100 * throughput / most);
  }
  return text;
}

// "idle: 2 of 16 devices: n3:2 n3:3", or nothing.
std::string idle_text(const Plan& plan, const Cluster& cluster) {
  std::set<DeviceName> used;
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    for (const PlanStage& stage : worker.stages) {
      used.insert(stage.devices.begin(), stage.devices.end());
    }
  }
  const std::vector<DeviceName> all = cluster.devices();
  std::vector<DeviceName> idle;
  for (const DeviceName& device : all) {
    if (!used.contains(device)) idle.push_back(device);
  }
  if (idle.empty()) return "";
  return format("idle: %zu of %zu devices: ", idle.size(), all.size()) + device_names(idle) + "\n";
}

}  // namespace

std::string abridged(const std::vector<std::string>& names, std::size_t most,
                     const std::string& between) {
  if (names.size() <= most) return join(names, between);
  return names.front() + " ... " + names.back() + format(" (%zu)", names.size());
}

std::string device_names(const std::vector<DeviceName>& devices) {
  constexpr std::size_t kMost = 4;
  std::vector<std::string> names;
  for (const DeviceName& device : devices) names.push_back(to_string(device));
  return abridged(names, kMost);
}

std::string plan_table(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  const Costs costs = costs_of(plan, cluster, profile);
  double bottleneck = 0;
  for (const auto& worker : costs) {
    for (const StageCost& cost : worker) bottleneck = std::max(bottleneck, cost.total());
  }
  const bool shares = has_shares(plan);
  std::vector<std::string> columns{"worker",     "stage",  "device",     "samples",
                                   "kind",       "layers", "forward ms", "backward ms",
                                   "receive ms", "memory", "of",         "share of the bottleneck"};
  if (!shares) std::erase(columns, "samples");
  Table table(columns);
  std::vector<Rows> workers;
  for (std::size_t vw = 0; vw < costs.size(); ++vw) {
    workers.push_back(rows_of(plan, cluster, profile, vw, costs[vw], bottleneck));
  }
  for (const Rows& rows : grouped(workers)) {
    for (std::size_t k = 0; k < rows.cells.size(); ++k) {
      Cells cells{k == 0 ? abridged(rows.workers, 4) : "", std::to_string(k),
                  device_names(rows.devices[k])};
      cells.insert(cells.end(), rows.cells[k].begin() + (shares ? 0 : 1), rows.cells[k].end());
      table.add(cells);
    }
  }
  std::string text = headline(plan) + table.text() + "\n";
  text += "slowest stage " + format_seconds(bottleneck) + " per minibatch";
  if (plan.predicted) text += throughput_text(plan, costs);
  text += "\n" + idle_text(plan, cluster) + staleness_text(plan_staleness(plan));
  if (!plan.server) return text;
  const long nm = plan.in_flight;
  const long d = plan.server->clock_distance;
  const SyncTraits& sync = traits(composition(plan).sync);
  if (sync.rounds) {
    const long h = plan.server->round;
    text += format(
        "rounds of H = %ld waves (%ld minibatches), D = %ld: a minibatch misses at most %ld "
        "updates "
        "of its own virtual worker\n  (s_local = Nm - 1) and %ld of all (s_global = (D + 1) H Nm "
        "+ Nm - 2); outer rate %g, momentum %g\n",
        h, h * nm, d, nm - 1, (d + 1) * h * nm + nm - 2, plan.server->outer_rate,
        plan.server->outer_momentum);
  } else if (sync.waves() && sync.bounded) {
    text += format(
        "clock distance D = %ld: a minibatch misses at most %ld updates of its own virtual worker "
        "(s_local = Nm - 1)\n  and %ld of all (s_global = (D + 1) Nm + Nm - 2)\n",
        d, nm - 1, (d + 1) * nm + nm - 2);
  }
  if (sync.steps) {
    text += "the servers make " + plan.optimizer +
            "'s steps, with the mean gradient of each wave (with --sync " +
            std::string(to_string(SyncRule::wsp)) +
            " each virtual worker has its own\n  optimizer)\n";
  }
  text += "parameter server, placement " + plan.server->placement +
          (plan.server->hosted ? ", inside worker ranks" : "") +
          (plan.server->halves_pushes() ? ", pushes in bf16" : "") + ":\n";
  return text + servers_text(plan, profile);
}

}  // namespace hetpipe
