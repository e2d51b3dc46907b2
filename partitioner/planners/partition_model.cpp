// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace hetpipe {

namespace {

void read_layers(PartitionModel& model, const Profile& profile, ModelTables& tables) {
  model.cuts = tables.cuts(profile);
  for (int l = 0; l < model.layers; ++l) {
    const auto& readers = model.cuts->readers[at_index(l)];
    model.has_skips = model.has_skips || (!readers.empty() && readers.back() > l + 1);
  }
  model.has_skips = model.has_skips || !model.cuts->tied.empty();
}

void read_devices(PartitionModel& model, const Cluster& cluster, const Profile& profile,
                  const PartitionRequest& request, ModelTables& tables) {
  std::map<std::pair<std::string, std::string>, int> symmetries;  // (node, kind)
  std::map<std::string, int> nodes;
  for (const DeviceName& name : request.devices) {
    const DeviceKind& kind = cluster.kind_of(name);
    PartitionDevice device;
    device.symmetry =
        symmetries.emplace(std::pair(name.node, kind.name), static_cast<int>(symmetries.size()))
            .first->second;
    device.node = nodes.emplace(name.node, static_cast<int>(nodes.size())).first->second;
    device.memory = kind.for_plans();
    device.tables = tables.of(profile, kind, request.minibatch / model.micro_batches,
                              model.micro_batches, request.updates);
    model.devices.push_back(std::move(device));
  }
  model.least_output = model.devices[0].output();
  std::set<const KindTables*> seen;
  for (const PartitionDevice& device : model.devices) {
    if (!seen.insert(device.tables.get()).second) continue;
    for (std::size_t l = 0; l < at_index(model.layers); ++l) {
      model.least_output[l] = std::min(model.least_output[l], device.output()[l]);
    }
  }
}

void read_links(PartitionModel& model, const Cluster& cluster, const PartitionRequest& request) {
  model.links.resize(model.devices.size());
  for (std::size_t a = 0; a < model.devices.size(); ++a) {
    for (std::size_t b = 0; b < model.devices.size(); ++b) {
      Link link;
      if (a != b) {
        link = cluster.link(request.devices[a], request.devices[b]);
        link.bandwidth /= request.message_weight;
        link.latency *= request.message_weight;
      }
      model.links[a].push_back(link);
    }
  }
  // Two nodes are alike when they bring the same kinds and no rule names a node: exchanging them
  // changes nothing.
  std::map<int, std::multiset<std::string>> kinds;
  for (std::size_t d = 0; d < model.devices.size(); ++d) {
    kinds[model.devices[d].node].insert(cluster.kind_of(request.devices[d]).name);
  }
  const bool nodes_named = std::any_of(cluster.between.begin(), cluster.between.end(),
                                       [](const LinkBetween& rule) { return !rule.nodes.empty(); });
  model.alike_before.resize(kinds.size());
  for (int node = 0; node < static_cast<int>(kinds.size()) && !nodes_named; ++node) {
    for (int other = 0; other < node; ++other) {
      if (kinds[other] == kinds[node]) model.alike_before[at_index(node)].push_back(other);
    }
  }
}

}  // namespace

PartitionModel partition_model(const Cluster& cluster, const Profile& profile,
                               const PartitionRequest& request) {
  PartitionModel model;
  model.layers = static_cast<int>(profile.layers.size());
  model.stages = static_cast<int>(request.devices.size());
  model.micro_batches = request.micro_batches;
  for (int k = 0; k < model.stages; ++k) {
    model.needs.emplace_back(pipeline_shape(request), StageId{k});
  }
  ModelTables own;
  ModelTables& tables = request.tables ? *request.tables : own;
  read_layers(model, profile, tables);
  read_devices(model, cluster, profile, request, tables);
  read_links(model, cluster, request);
  return model;
}

}  // namespace hetpipe
