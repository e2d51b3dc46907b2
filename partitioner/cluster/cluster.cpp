// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/cluster.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

bool joins(const std::vector<std::string>& pair, const std::string& a, const std::string& b) {
  return pair.size() == 2 && ((pair[0] == a && pair[1] == b) || (pair[0] == b && pair[1] == a));
}

}  // namespace

std::int64_t DeviceKind::for_plans() const {
  return plan_share == 1 ? memory : std::llround(plan_share * static_cast<double>(memory));
}

std::string memory_for_plans(const DeviceKind& kind) {
  const std::string whole = format_bytes(static_cast<double>(kind.memory));
  if (kind.plan_share == 1) return whole;
  return format("%s (%.0f %% of %s)", format_bytes(static_cast<double>(kind.for_plans())).c_str(),
                100 * kind.plan_share, whole.c_str());
}

std::string to_string(const DeviceName& name) {
  return name.node + ":" + std::to_string(name.index);
}

std::optional<DeviceName> try_parse_device(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == text.size())
    return std::nullopt;
  const std::string_view digits = text.substr(colon + 1);
  int index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size() || digits[0] == '-') {
    return std::nullopt;
  }
  return DeviceName{std::string(text.substr(0, colon)), index};
}

std::optional<NodeId> Cluster::find_node(std::string_view name) const {
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (nodes[i].name == name) return NodeId{static_cast<int>(i)};
  }
  return std::nullopt;
}

bool Cluster::has(const DeviceName& device) const {
  const auto node = find_node(device.node);
  return node && device.index >= 0 &&
         device.index < static_cast<int>(nodes[static_cast<std::size_t>(node->value)].kinds.size());
}

const DeviceKind& Cluster::kind_of(const DeviceName& device) const {
  for (const Node& node : nodes) {
    if (node.name != device.node) continue;
    const auto index = static_cast<std::size_t>(device.index);
    if (index < node.kinds.size()) return kinds[static_cast<std::size_t>(node.kinds[index])];
    break;
  }
  ensure(false, "no device " + to_string(device) + " in the cluster");
  return kinds.front();
}

std::vector<DeviceName> Cluster::devices() const {
  std::vector<DeviceName> result;
  for (const Node& node : nodes) {
    for (std::size_t i = 0; i < node.kinds.size(); ++i) {
      result.push_back({node.name, static_cast<int>(i)});
    }
  }
  return result;
}

bool Cluster::emulated() const {
  return std::any_of(kinds.begin(), kinds.end(),
                     [](const auto& k) { return k.emulate.has_value(); }) ||
         std::any_of(between.begin(), between.end(),
                     [](const auto& b) { return b.link.emulate; }) ||
         intra_node.emulate || inter_node.emulate;
}

Link Cluster::link(const DeviceName& from, const DeviceName& to) const {
  ensure(find_node(from.node) && find_node(to.node), "a link needs two nodes of the cluster");
  const Link base = from.node == to.node ? intra_node : inter_node;
  const LinkBetween* rule = nullptr;
  for (const LinkBetween& candidate : between) {
    if (joins(candidate.nodes, from.node, to.node)) rule = &candidate;
  }
  if (rule == nullptr && from.index >= 0 && to.index >= 0) {
    for (const LinkBetween& candidate : between) {
      if (joins(candidate.kinds, kind_of(from).name, kind_of(to).name)) rule = &candidate;
    }
  }
  if (rule == nullptr) return base;
  return {rule->link.bandwidth, rule->has_latency ? rule->link.latency : base.latency,
          rule->link.emulate || base.emulate};
}

}  // namespace hetpipe
