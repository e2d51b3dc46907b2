// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/index.h"
#include "base/text.h"
#include "launch/probe/probed.h"
#include "partitioner/cluster/catalogue.h"

namespace hetpipe {
namespace {

constexpr double kClearly = 2.0 / 3;  // below this share a link is another one, not a bad moment

// Three digits: more are noise. By way of text, so that a file shows no more either.
double rounded(double value) {
  return value > 0 && std::isfinite(value) ? std::strtod(format("%.3g", value).c_str(), nullptr)
                                           : 0;
}

DeviceKind device_kind(const PoolKind& of, const DeviceNumbers& numbers) {
  const CatalogueEntry* const entry =
      of.catalogue.empty() ? nullptr : find_in_catalogue(of.catalogue);
  DeviceKind kind = entry != nullptr ? kind_from(*entry, of.name) : DeviceKind{};
  kind.name = of.name;
  kind.memory = of.memory;
  kind.plan_share = kUsualPlanShare;
  if (entry != nullptr) {
    if (numbers.fp32_flops > 0) {
      const double share = numbers.fp32_flops / kind.peak_flops;
      kind.fp32_efficiency = std::round(std::clamp(share, 0.01, 1.0) * 100) / 100;
    }
    return kind;
  }
  kind.fp32_efficiency = 1;
  kind.peak_flops = rounded(numbers.fp32_flops);
  const bool halves = of.usual == Precision::bf16 || of.usual == Precision::fp16;
  if (halves && numbers.usual_flops > numbers.fp32_flops) {
    kind.peak_flops_fp16 = rounded(numbers.usual_flops);
  }
  // A copy reads and writes each byte.
  kind.memory_bandwidth =
      rounded(of.memory_bandwidth > 0 ? of.memory_bandwidth : 2 * numbers.copies.inside);
  return kind;
}

// A link between two nodes' kinds, at its slower direction.
struct Observed {
  int node_a = 0, node_b = 0;
  int kind_a = 0, kind_b = 0;  // -1: the host's memory
  Link link;
  bool between_devices = true;  // false: a rank with itself, or two on one device
  bool inside() const { return node_a == node_b; }
};

std::vector<Observed> observed_links(const Probed& probed) {
  std::vector<Observed> all;
  for (const LinkResult& result : probed.links) {
    if (!result.numbers) continue;
    const PoolPlace& a = probed.pool.places[at(result.test.from)];
    const PoolPlace& b = probed.pool.places[at(result.test.to)];
    Observed one{a.node,
                 b.node,
                 probed.pool.kind_of(result.test.from),
                 probed.pool.kind_of(result.test.to),
                 {}};
    one.link.bandwidth = rounded(std::min(result.numbers->there, result.numbers->back));
    one.link.latency = rounded(result.numbers->latency);
    one.between_devices = !(a.node == b.node && a.device == b.device);
    all.push_back(one);
  }
  // Stand-ins count only where there is nothing better.
  const auto real = [](const Observed& one) { return one.inside() && one.between_devices; };
  if (std::any_of(all.begin(), all.end(), real)) {
    std::erase_if(all, [](const Observed& one) { return !one.between_devices; });
  }
  return all;
}

Link fastest(const std::vector<Observed>& all, bool inside) {
  Link best;
  for (const Observed& one : all) {
    if (one.inside() == inside && one.link.bandwidth > best.bandwidth) best = one.link;
  }
  return best;
}

bool joins_kinds(const Observed& one, int a, int b) {
  return std::minmax(one.kind_a, one.kind_b) == std::minmax(a, b);
}

class Rules {
 public:
  Rules(const Probed& probed, std::vector<Observed> all, Cluster& cluster)
      : pool_(probed.pool), all_(std::move(all)), cluster_(cluster) {}

  void decide() {
    const int kinds = static_cast<int>(pool_.kinds.size());
    for (int a = 0; a < kinds; ++a) {
      for (int b = a; b < kinds; ++b) rule_for_kinds(a, b);
    }
    const int nodes = static_cast<int>(pool_.nodes.size());
    for (int a = 0; a < nodes; ++a) {
      for (int b = a; b < nodes; ++b) rule_for_nodes(a, b);
    }
  }

 private:
  double base(const Observed& one) const {
    return (one.inside() ? cluster_.intra_node : cluster_.inter_node).bandwidth;
  }

  // What the file says so far of that link.
  double said(const Observed& one) const {
    for (const LinkBetween& rule : cluster_.between) {
      if (rule.kinds.empty() || one.kind_a < 0 || one.kind_b < 0) continue;
      const std::string& a = pool_.kinds[at(one.kind_a)].name;
      const std::string& b = pool_.kinds[at(one.kind_b)].name;
      if (std::minmax(rule.kinds[0], rule.kinds[1]) == std::minmax(a, b)) {
        return rule.link.bandwidth;
      }
    }
    return base(one);
  }

  // A rule of kinds holds inside nodes and between them, so all its links have to be slow and
  // alike.
  void rule_for_kinds(int a, int b) {
    const Observed* slowest = nullptr;
    const Observed* quickest = nullptr;
    for (const Observed& one : all_) {
      if (!joins_kinds(one, a, b)) continue;
      if (one.link.bandwidth >= kClearly * base(one)) return;
      if (!slowest || one.link.bandwidth < slowest->link.bandwidth) slowest = &one;
      if (!quickest || one.link.bandwidth > quickest->link.bandwidth) quickest = &one;
    }
    if (slowest == nullptr || slowest->link.bandwidth < kClearly * quickest->link.bandwidth) return;
    cluster_.between.push_back({.kinds = {pool_.kinds[at(a)].name, pool_.kinds[at(b)].name},
                                .nodes = {},
                                .link = slowest->link});
  }

  void rule_for_nodes(int a, int b) {
    const Observed* slowest = nullptr;
    bool unsaid = false;
    for (const Observed& one : all_) {
      if (std::minmax(one.node_a, one.node_b) != std::minmax(a, b)) continue;
      unsaid = unsaid || one.link.bandwidth < kClearly * said(one);
      if (!slowest || one.link.bandwidth < slowest->link.bandwidth) slowest = &one;
    }
    if (!unsaid) return;
    cluster_.between.push_back({.kinds = {},
                                .nodes = {pool_.nodes[at(a)].name, pool_.nodes[at(b)].name},
                                .link = slowest->link});
  }

  const Pool& pool_;
  const std::vector<Observed> all_;
  Cluster& cluster_;
};

}  // namespace

bool Probed::complete() const {
  return std::all_of(devices.begin(), devices.end(),
                     [](const DeviceNumbers& numbers) { return numbers.failure.empty(); }) &&
         std::all_of(links.begin(), links.end(),
                     [](const LinkResult& link) { return link.numbers.has_value(); });
}

Cluster decide_cluster(const Probed& probed) {
  Cluster cluster;
  for (std::size_t k = 0; k < probed.pool.kinds.size(); ++k) {
    cluster.kinds.push_back(device_kind(probed.pool.kinds[k], probed.devices[k]));
  }
  for (const PoolNode& node : probed.pool.nodes) {
    Node written{.name = node.name, .kinds = {}};
    for (const PoolDevice& device : node.devices) written.kinds.push_back(device.kind);
    cluster.nodes.push_back(std::move(written));
  }
  std::vector<Observed> all = observed_links(probed);
  cluster.intra_node = fastest(all, true);
  cluster.inter_node = fastest(all, false);
  Rules(probed, std::move(all), cluster).decide();
  return cluster;
}

}  // namespace hetpipe
