// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/replicated.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/profile/cut.h"

namespace hetpipe {
namespace {

// "Input", "Input0" and "node1 Input0", but not "InputProjection".
bool reads_samples(const ProfileLayer& layer) {
  if (!layer.inputs.empty()) return false;
  const std::string_view word =
      std::string_view(layer.name).substr(layer.name.find_last_of(' ') + 1);
  return word.starts_with("Input") &&
         std::all_of(word.begin() + 5, word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void lower(Link& link, const Link& other) {
  link.bandwidth = std::min(link.bandwidth, other.bandwidth);
  link.latency = std::max(link.latency, other.latency);
}

// Receives activations and gradients of one micro-batch, one replica's part of them: what each of
// the neighbours sends, over the slowest link between them.
double receive_seconds(const PlanRequest& request, const PlanVirtualWorker& vw,
                       const std::vector<Transfer>& transfers, int stage, const LayerCosts& costs) {
  double seconds = 0;
  for (const Transfer& transfer : transfers) {
    if (transfer.from_stage != stage && transfer.to_stage != stage) continue;
    const int other = transfer.from_stage == stage ? transfer.to_stage : transfer.from_stage;
    const auto& here = vw.stages[static_cast<std::size_t>(stage)].devices;
    const auto& there = vw.stages[static_cast<std::size_t>(other)].devices;
    const Link link = request.cluster.link(there.front(), here.front());
    double bytes = 0;
    for (const int l : transfer.layers) {
      bytes += static_cast<double>(costs.output_bytes[static_cast<std::size_t>(l)]);
    }
    seconds += link.transfer_seconds(bytes / static_cast<double>(here.size()));
  }
  return seconds;
}

}  // namespace

int PlacedLayers::end_layer(int end) const {
  return end == size() ? layer_count : layers[static_cast<std::size_t>(end - 1)] + 1;
}

PlacedLayers placed_layers(const Profile& profile) {
  PlacedLayers placed;
  placed.layer_count = static_cast<int>(profile.layers.size());
  std::vector<int> place(profile.layers.size(), -1);
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    if (reads_samples(profile.layers[l])) continue;
    place[l] = placed.size();
    placed.layers.push_back(static_cast<int>(l));
    placed.inputs.emplace_back();
    for (const int input : profile.layers[l].inputs) {
      const int at = place[static_cast<std::size_t>(input)];
      if (at >= 0) placed.inputs.back().push_back(at);
    }
  }
  if (placed.layers.empty()) {
    throw UserError("", "the profile of '" + profile.model +
                            "' has only inputs (a stage needs layers). Check the profile.");
  }
  return placed;
}

std::vector<std::vector<DeviceName>> devices_by_node(const Cluster& cluster) {
  std::vector<std::vector<DeviceName>> nodes;
  for (const Node& node : cluster.nodes) {
    if (node.kinds.empty()) continue;
    nodes.emplace_back();
    for (std::size_t d = 0; d < node.kinds.size(); ++d) {
      nodes.back().push_back({node.name, static_cast<int>(d)});
    }
  }
  if (nodes.empty()) {
    throw UserError(
        "", "the cluster has no device (at least one is needed to compute). Add one to a node.");
  }
  return nodes;
}

int kind_index(const Cluster& cluster, const DeviceName& device) {
  return static_cast<int>(&cluster.kind_of(device) - cluster.kinds.data());
}

std::vector<int> kinds_present(const Cluster& cluster) {
  std::set<int> kinds;
  for (const Node& node : cluster.nodes) kinds.insert(node.kinds.begin(), node.kinds.end());
  return {kinds.begin(), kinds.end()};
}

std::vector<std::shared_ptr<const LayerCosts>> costs_by_kind(const PlanRequest& request,
                                                             int samples) {
  const auto tables = tables_of(request);
  std::vector<std::shared_ptr<const LayerCosts>> costs(request.cluster.kinds.size());
  for (const int kind : kinds_present(request.cluster)) {
    const auto at = static_cast<std::size_t>(kind);
    costs[at] = tables->costs(request.profile, request.cluster.kinds[at], samples, Updates::plain);
  }
  return costs;
}

SlowestLinks slowest_links(const Cluster& cluster) {
  SlowestLinks links{cluster.intra_node, cluster.inter_node};
  const auto has = [&](const Node& node, const std::string& kind) {
    return std::any_of(node.kinds.begin(), node.kinds.end(), [&](int k) {
      return cluster.kinds[static_cast<std::size_t>(k)].name == kind;
    });
  };
  for (const LinkBetween& rule : cluster.between) {
    if (rule.nodes.size() == 2) {
      Link& link = rule.nodes[0] == rule.nodes[1] ? links.within : links.across;
      lower(link, rule.link);
      continue;
    }
    if (rule.kinds.size() != 2) continue;
    bool together = false;
    std::set<std::string> first;
    std::set<std::string> second;
    for (const Node& node : cluster.nodes) {
      if (has(node, rule.kinds[0])) first.insert(node.name);
      if (has(node, rule.kinds[1])) second.insert(node.name);
      together = together || (has(node, rule.kinds[0]) && has(node, rule.kinds[1]));
    }
    if (together) lower(links.within, rule.link);
    const bool apart = !first.empty() && !second.empty() &&
                       (first.size() > 1 || second.size() > 1 || first != second);
    if (apart) lower(links.across, rule.link);
  }
  return links;
}

std::string memory_shortage(const PlanRequest& request, const Plan& plan) {
  for (std::size_t v = 0; v < plan.virtual_workers.size(); ++v) {
    const auto& stages = plan.virtual_workers[v].stages;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      for (const StageNeed& need : replica_needs(
               plan, request.cluster, request.profile, VirtualWorkerId{static_cast<int>(v)},
               StageId{static_cast<int>(k)}, request.tables.get())) {
        if (need.missing() <= 0) continue;
        const DeviceKind& kind = request.cluster.kind_of(need.device);
        return format(
            "layers [%d, %d] need %s on %s (%s), which has %s", stages[k].first_layer,
            stages[k].end_layer, format_bytes(static_cast<double>(need.ledger.total())).c_str(),
            to_string(need.device).c_str(), kind.name.c_str(), memory_for_plans(kind).c_str());
      }
    }
  }
  return "";
}

void predict_stages(const PlanRequest& request, Plan& plan, VirtualWorkerId id) {
  std::map<std::pair<int, int>, LayerCosts> known;  // [kind, samples]
  const auto costs = [&](const DeviceName& device, int samples) -> const LayerCosts& {
    const int kind = kind_index(request.cluster, device);
    const auto [at, fresh] = known.try_emplace({kind, samples});
    if (fresh) {
      at->second =
          costs_on(request.profile, request.cluster.kinds[static_cast<std::size_t>(kind)], samples);
    }
    return at->second;
  };
  PlanVirtualWorker& vw = plan.virtual_workers[static_cast<std::size_t>(id.value)];
  const int samples = plan.minibatch_of(id) / plan.micro_batches;
  std::vector<int> ends;
  for (const PlanStage& stage : vw.stages) ends.push_back(stage.end_layer);
  const auto crossing = transfers(request.profile, ends);
  for (std::size_t k = 0; k < vw.stages.size(); ++k) {
    PlanStage& stage = vw.stages[k];
    StagePrediction predicted;
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      const int replicas = static_cast<int>(stage.devices.size());
      const int share = stage.shares.empty() ? std::max(1, samples / replicas) : stage.shares[r];
      const LayerCosts& cost = costs(stage.devices[r], share);
      double forward = 0;
      double backward = 0;
      for (int l = stage.first_layer; l < stage.end_layer; ++l) {
        forward += cost.forward[static_cast<std::size_t>(l)];
        backward += cost.backward[static_cast<std::size_t>(l)];
      }
      if (stage.recompute) backward += forward;
      predicted.forward_seconds = std::max(predicted.forward_seconds, forward);
      predicted.backward_seconds = std::max(predicted.backward_seconds, backward);
    }
    predicted.receive_seconds = receive_seconds(request, vw, crossing, static_cast<int>(k),
                                                costs(stage.devices[0], samples));
    predicted.memory =
        stage_ledger(plan, request.cluster, request.profile, id, StageId{static_cast<int>(k)})
            .total();
    stage.predicted = predicted;
  }
}

void finish(const PlanRequest& request, Plan& plan, double objective) {
  // A search makes forecasts of the stages of the plan that it chooses.
  for (std::size_t v = 0; v < plan.virtual_workers.size() && !request.of_search; ++v) {
    predict_stages(request, plan, VirtualWorkerId{static_cast<int>(v)});
  }
  plan.predicted = Prediction{};
  plan.predicted->bottleneck = objective;
  predict(request, plan);
}

void refuse_virtual_workers(const PlanRequest& request, const char* planner) {
  if (request.virtual_workers.value_or(1) == 1) return;
  throw UserError("--virtual-workers",
                  format("%d (%s forms one virtual worker, whose stages have replicas). Leave it "
                         "out, or use --policy search.",
                         *request.virtual_workers, planner));
}

}  // namespace hetpipe
