// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/allocation.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

// A node's devices, in the file's order.
using NodeDevices = std::vector<DeviceName>;

[[noreturn]] void refuse(const std::string& policy, int number, const std::string& why,
                         const std::string& remedy) {
  throw UserError("--virtual-workers", format("policy %s cannot form %d virtual workers (%s). %s",
                                              policy.c_str(), number, why.c_str(), remedy.c_str()));
}

// Run i of `parts` equal runs of `count` things; the first runs are the longer ones.
std::pair<std::size_t, std::size_t> run_of(std::size_t count, std::size_t parts, std::size_t i) {
  const std::size_t base = count / parts;
  const std::size_t longer = count % parts;
  const std::size_t begin = i * base + std::min(i, longer);
  return {begin, begin + base + (i < longer ? 1 : 0)};
}

Allocation node_partition(const std::vector<NodeDevices>& nodes, std::optional<int> number) {
  const int count = static_cast<int>(nodes.size());
  const int wanted = number.value_or(count);
  Allocation result;
  if (wanted >= count && wanted % count == 0) {
    const auto parts = static_cast<std::size_t>(wanted / count);
    for (const NodeDevices& node : nodes) {
      if (node.size() < parts) {
        refuse("np", wanted,
               "node " + node[0].node + " has too few devices to split it into " +
                   std::to_string(parts),
               "Ask for fewer.");
      }
      for (std::size_t i = 0; i < parts; ++i) {
        const auto [begin, end] = run_of(node.size(), parts, i);
        result.emplace_back(node.begin() + static_cast<long>(begin),
                            node.begin() + static_cast<long>(end));
      }
    }
    return result;
  }
  if (wanted < count && count % wanted == 0) {
    result.resize(static_cast<std::size_t>(wanted));
    const int joined = count / wanted;
    for (int i = 0; i < count; ++i) {
      auto& vw = result[static_cast<std::size_t>(i / joined)];
      const NodeDevices& node = nodes[static_cast<std::size_t>(i)];
      vw.insert(vw.end(), node.begin(), node.end());
    }
    return result;
  }
  refuse("np", wanted, format("%d nodes have devices", count),
         "Ask for a multiple or a divisor of that.");
}

Allocation equal_distribution(const std::vector<NodeDevices>& nodes, std::optional<int> number) {
  std::size_t most = 0;
  for (const NodeDevices& node : nodes) most = std::max(most, node.size());
  const auto wanted = number ? static_cast<std::size_t>(*number) : most;
  if (wanted > most) {
    refuse("ed", static_cast<int>(wanted),
           format("each takes one device of a node, and the largest node has %zu", most),
           "Ask for at most that many.");
  }
  Allocation result(wanted);
  for (const NodeDevices& node : nodes) {
    for (std::size_t j = 0; j < node.size(); ++j) result[j % wanted].push_back(node[j]);
  }
  return result;
}

Allocation hybrid_distribution(const Cluster& cluster, std::vector<NodeDevices> nodes,
                               std::span<const double> kind_speed, std::optional<int> number) {
  const auto power = [&](const NodeDevices& node) {
    const auto id = static_cast<std::size_t>(cluster.find_node(node[0].node)->value);
    const auto& kinds = cluster.nodes[id].kinds;
    return std::accumulate(kinds.begin(), kinds.end(), 0.0, [&](double sum, int kind) {
      return sum + kind_speed[static_cast<std::size_t>(kind)];
    });
  };
  std::stable_sort(nodes.begin(), nodes.end(),
                   [&](const auto& a, const auto& b) { return power(a) > power(b); });
  const std::size_t pairs = (nodes.size() + 1) / 2;
  if (number && static_cast<std::size_t>(*number) % pairs != 0) {
    refuse("hd", *number, format("strongest and weakest nodes form %zu pairs", pairs),
           "Ask for a multiple of that.");
  }
  Allocation result;
  for (std::size_t i = 0; i < pairs; ++i) {
    const NodeDevices& strong = nodes[i];
    const std::size_t weak_at = nodes.size() - 1 - i;
    const NodeDevices weak = weak_at == i ? NodeDevices{} : nodes[weak_at];
    const std::size_t size = strong.size() + weak.size();
    const std::size_t halves = size > 2 || (weak.empty() && size == 2) ? 2 : 1;
    const std::size_t parts = number ? static_cast<std::size_t>(*number) / pairs : halves;
    for (std::size_t part = 0; part < parts; ++part) {
      // Longer runs of the strong node go to the first parts, longer runs of the weak one to the
      // last.
      const auto [s, s_end] = run_of(strong.size(), parts, part);
      const auto [w, w_end] = run_of(weak.size(), parts, parts - 1 - part);
      NodeDevices vw(strong.begin() + static_cast<long>(s),
                     strong.begin() + static_cast<long>(s_end));
      vw.insert(vw.end(), weak.begin() + static_cast<long>(w),
                weak.begin() + static_cast<long>(w_end));
      if (vw.empty()) {
        refuse("hd", static_cast<int>(parts * pairs),
               format("the pair of node %s has %zu devices for %zu virtual workers",
                      strong[0].node.c_str(), size, parts),
               "Ask for fewer.");
      }
      std::sort(vw.begin() + static_cast<long>(s_end - s), vw.end());
      result.push_back(std::move(vw));
    }
  }
  return result;
}

}  // namespace

const std::vector<std::string>& allocation_policies() {
  static const std::vector<std::string> kPolicies{"np", "ed", "hd"};
  return kPolicies;
}

Allocation allocate(const Cluster& cluster, const std::string& policy,
                    std::span<const double> kind_speed, std::optional<int> virtual_workers) {
  const auto& known = allocation_policies();
  if (std::find(known.begin(), known.end(), policy) == known.end()) {
    throw UserError("--policy", unknown("allocation policy", policy, known) +
                                    ". Name one of these: " + join(known, ", ") + ".");
  }
  if (virtual_workers && *virtual_workers < 1) {
    throw UserError("--virtual-workers",
                    format("%d (at least one virtual worker is needed). Ask for one or "
                           "more.",
                           *virtual_workers));
  }
  std::vector<NodeDevices> nodes;
  for (const Node& node : cluster.nodes) {
    NodeDevices devices;
    for (std::size_t i = 0; i < node.kinds.size(); ++i) {
      devices.push_back({node.name, static_cast<int>(i)});
    }
    if (!devices.empty()) nodes.push_back(std::move(devices));
  }
  if (nodes.empty()) {
    throw UserError(
        "--cluster",
        "no node has a device (at least one is needed to compute). Give a node devices.");
  }
  if (policy == "np") return node_partition(nodes, virtual_workers);
  if (policy == "ed") return equal_distribution(nodes, virtual_workers);
  return hybrid_distribution(cluster, std::move(nodes), kind_speed, virtual_workers);
}

}  // namespace hetpipe
