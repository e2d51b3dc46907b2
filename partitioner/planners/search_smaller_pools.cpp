// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_smaller_pools.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/index.h"

namespace hetpipe {
namespace {

constexpr std::size_t kNodesInGroups = 5;

class SmallerPools {
 public:
  SmallerPools(const Cluster& cluster, const std::set<DeviceName>& used, std::set<PoolShape>& asked)
      : cluster_(cluster),
        asked_(asked),
        devices_(cluster.devices()),
        names_tell_(std::any_of(cluster.between.begin(), cluster.between.end(),
                                [](const LinkBetween& rule) { return !rule.nodes.empty(); })) {
    std::reverse(devices_.begin(), devices_.end());
    std::stable_partition(devices_.begin(), devices_.end(),
                          [&](const DeviceName& device) { return !used.contains(device); });
    for (const Node& node : cluster.nodes) nodes_.push_back(node_shape(node));
  }

  void singles() {
    for (const DeviceName& device : devices_) add({device});
  }

  void pairs() {
    for (std::size_t a = 0; a < devices_.size(); ++a) {
      for (std::size_t b = a + 1; b < devices_.size(); ++b) {
        if (kind_and_node(devices_[a]) == kind_and_node(devices_[b])) {
          add({devices_[a], devices_[b]});
        }
      }
    }
  }

  void kinds_of_nodes() {
    for (const DeviceName& device : devices_) {
      add_where([&](const DeviceName& other) {
        return other.node == device.node && &cluster_.kind_of(other) == &cluster_.kind_of(device);
      });
    }
  }

  void kinds() {
    for (const DeviceName& device : devices_) {
      add_where([&](const DeviceName& other) {
        return &cluster_.kind_of(other) == &cluster_.kind_of(device);
      });
    }
  }

  void nodes() {
    std::set<std::string> names;
    for (const DeviceName& device : devices_) names.insert(device.node);
    if (names.size() > kNodesInGroups) return;
    for (unsigned some = 1; some < 1U << names.size(); ++some) {
      add_where([&](const DeviceName& device) {
        const auto at = std::distance(names.begin(), names.find(device.node));
        return (some >> at & 1U) != 0;
      });
    }
  }

  std::vector<SmallerPool> take() { return std::move(pools_); }

 private:
  std::string node_shape(const Node& node) const {
    std::vector<int> kinds = node.kinds;
    std::sort(kinds.begin(), kinds.end());
    std::string shape = names_tell_ ? node.name : "";
    for (const int kind : kinds) shape += ' ' + std::to_string(kind);
    return shape;
  }

  std::pair<std::string, const DeviceKind*> kind_and_node(const DeviceName& device) const {
    return {at(nodes_, cluster_.find_node(device.node)->value), &cluster_.kind_of(device)};
  }

  template <typename IsGone>
  void add_where(const IsGone& is_gone) {
    std::vector<DeviceName> gone;
    std::copy_if(devices_.begin(), devices_.end(), std::back_inserter(gone), is_gone);
    add(std::move(gone));
  }

  void add(std::vector<DeviceName> gone) {
    if (gone.size() == devices_.size()) return;
    std::sort(gone.begin(), gone.end(), [](const DeviceName& a, const DeviceName& b) {
      return a.node == b.node ? a.index > b.index : a.node < b.node;
    });
    Cluster less = cluster_;
    for (const DeviceName& device : gone) less = without_device(less, device);
    PoolShape shape;
    for (const Node& node : less.nodes) shape.push_back(node_shape(node));
    std::sort(shape.begin(), shape.end());
    if (!asked_.insert(std::move(shape)).second) return;
    pools_.push_back({std::move(less), std::move(gone)});
  }

  const Cluster& cluster_;
  std::set<PoolShape>& asked_;
  std::vector<DeviceName> devices_;  // those that are not used first, the last ones of a node first
  bool names_tell_;                  // a link is between nodes that it names
  std::vector<std::string> nodes_;   // their shapes
  std::vector<SmallerPool> pools_;
};

}  // namespace

Cluster without_device(const Cluster& cluster, const DeviceName& device) {
  Cluster less = cluster;
  Node& node = at(less.nodes, less.find_node(device.node)->value);
  node.kinds.erase(node.kinds.begin() + device.index);
  return less;
}

std::vector<SmallerPool> smaller_pools(const Cluster& cluster, const std::set<DeviceName>& used,
                                       bool groups, std::set<PoolShape>& asked) {
  SmallerPools pools(cluster, used, asked);
  pools.singles();
  if (groups) {
    pools.kinds_of_nodes();
    pools.kinds();
    pools.nodes();
    pools.pairs();
  }
  return pools.take();
}

}  // namespace hetpipe
