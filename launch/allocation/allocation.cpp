// SPDX-License-Identifier: Apache-2.0
#include "launch/allocation/allocation.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/host_name.h"
#include "base/index.h"
#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/cluster/device_type.h"

namespace hetpipe {
namespace {

// The devices of a node that the pool names: of those it has, as many as the job was given, by
// their types where these are said.
std::vector<int> given_of(const Node& node, const AllocatedNode& allocated, const Cluster& pool) {
  std::vector<int> left = node.kinds;
  std::vector<int> given;
  for (const std::string& type : allocated.gpus) {
    if (left.empty()) break;
    const auto of_type = std::find_if(left.begin(), left.end(), [&](int kind) {
      return !type.empty() && means_kind(type, pool.kinds[at(kind)].name);
    });
    const auto taken = of_type == left.end() ? left.begin() : of_type;
    given.push_back(*taken);
    left.erase(taken);
  }
  return given;
}

// What a GPU is called: its type or, where none is said, the feature of its node that means a kind.
std::string type_of(const std::string& type, const AllocatedNode& node, const Cluster& pool) {
  if (!type.empty()) return type;
  for (const std::string& feature : node.features) {
    if (find_in_catalogue(feature) != nullptr) return feature;
    for (const DeviceKind& kind : pool.kinds) {
      if (means_kind(feature, kind.name)) return feature;
    }
  }
  return type;
}

// The kind that a scheduler's type means: the pool's, else the catalogue's, which joins them.
std::optional<int> kind_meant(const std::string& type, Cluster& cluster) {
  for (std::size_t k = 0; k < cluster.kinds.size(); ++k) {
    if (means_kind(type, cluster.kinds[k].name)) return static_cast<int>(k);
  }
  const CatalogueEntry* entry = find_in_catalogue(type);
  if (entry == nullptr) return std::nullopt;
  cluster.kinds.push_back(kind_from(*entry, std::string(entry->name)));
  return static_cast<int>(cluster.kinds.size()) - 1;
}

// Kinds of which no node has a device, and rules that name nodes or kinds which are not there, are
// no part of the cluster.
void leave_out_unused(Cluster& cluster) {
  std::vector<int> number(cluster.kinds.size(), -1);
  std::vector<DeviceKind> kinds;
  for (Node& node : cluster.nodes) {
    for (int& kind : node.kinds) {
      int& known = number[at(kind)];
      if (known < 0) {
        known = static_cast<int>(kinds.size());
        kinds.push_back(cluster.kinds[at(kind)]);
      }
      kind = known;
    }
  }
  cluster.kinds = std::move(kinds);
  std::erase_if(cluster.between, [&](const LinkBetween& rule) {
    const auto missing_node = [&](const std::string& name) { return !cluster.find_node(name); };
    const auto missing_kind = [&](const std::string& name) {
      return std::none_of(cluster.kinds.begin(), cluster.kinds.end(),
                          [&](const DeviceKind& kind) { return kind.name == name; });
    };
    return std::any_of(rule.nodes.begin(), rule.nodes.end(), missing_node) ||
           std::any_of(rule.kinds.begin(), rule.kinds.end(), missing_kind);
  });
}

}  // namespace

Allocation hosts_allocation(const std::vector<std::string>& host_of_rank) {
  Allocation allocation;
  allocation.of = "the hosts of these ranks";
  std::set<std::string> seen;
  for (const std::string& host : host_of_rank) {
    if (seen.insert(host).second) allocation.nodes.push_back({.name = host});
  }
  return allocation;
}

bool means_kind(const std::string& type, const std::string& kind) {
  if (same_device_type(type, kind)) return true;
  const CatalogueEntry* meant = find_in_catalogue(type);
  return meant != nullptr && meant == find_in_catalogue(kind);
}

Cluster cluster_of(const Allocation& allocation, const Cluster& pool,
                   const std::string& pool_file) {
  Cluster cluster = pool;
  cluster.nodes.clear();
  // A scheduler that knows of no GPU anywhere does not manage them.
  const bool managed = allocation.gpus_known &&
                       std::any_of(allocation.nodes.begin(), allocation.nodes.end(),
                                   [](const AllocatedNode& node) { return !node.gpus.empty(); });
  Problems problems;
  for (const AllocatedNode& allocated : allocation.nodes) {
    if (!allocated.answers) continue;
    Node node{.name = allocated.name, .kinds = {}};
    const auto known =
        std::find_if(pool.nodes.begin(), pool.nodes.end(), [&](const Node& candidate) {
          return short_name(candidate.name) == short_name(allocated.name);
        });
    if (known != pool.nodes.end()) {
      node.name = known->name;
      node.kinds = managed ? given_of(*known, allocated, pool) : known->kinds;
    } else {
      for (const std::string& type : allocated.gpus) {
        const std::optional<int> kind = kind_meant(type_of(type, allocated, pool), cluster);
        if (kind) {
          node.kinds.push_back(*kind);
          continue;
        }
        problems.add(
            pool_file,
            format("does not name node '%s' of %s, nor a device type for its GPU of "
                   "type '%s' (the catalogue does not either). Add [device.%s], or the node.",
                   allocated.name.c_str(), allocation.of.c_str(), type.c_str(),
                   type.empty() ? "TYPE" : type.c_str()));
        break;
      }
    }
    cluster.nodes.push_back(std::move(node));
  }
  problems.throw_if_any();
  leave_out_unused(cluster);
  return cluster;
}

Cluster plain_cluster(const Allocation& allocation) {
  Cluster cluster;
  for (const AllocatedNode& node : allocation.nodes) {
    if (!node.answers) continue;
    Node plain{.name = node.name, .kinds = {}};
    for (const std::string& type : node.gpus) {
      std::size_t k = 0;
      while (k < cluster.kinds.size() && cluster.kinds[k].name != type &&
             !same_device_type(cluster.kinds[k].name, type)) {
        ++k;
      }
      if (k == cluster.kinds.size()) cluster.kinds.emplace_back().name = type;
      plain.kinds.push_back(static_cast<int>(k));
    }
    cluster.nodes.push_back(std::move(plain));
  }
  return cluster;
}

std::vector<RanksOfNode> ranks_of_nodes(const Cluster& cluster) {
  std::vector<RanksOfNode> all;
  for (const bool devices : {true, false}) {
    for (const Node& node : cluster.nodes) {
      if (node.kinds.empty() == devices) continue;
      const int count = static_cast<int>(node.kinds.size());
      all.push_back({node.name, std::max(count, 1), count});
    }
  }
  return all;
}

Seats seats_of(const Cluster& cluster, const std::vector<std::string>& host_of_rank) {
  std::map<std::string, std::vector<std::size_t>> ranks_on;
  for (std::size_t r = 0; r < host_of_rank.size(); ++r) {
    ranks_on[short_name(host_of_rank[r])].push_back(r);
  }
  Seats seats;
  seats.cluster = cluster;
  seats.cluster.nodes.clear();
  seats.device_of_rank.resize(host_of_rank.size());
  for (const Node& node : cluster.nodes) {
    const auto found = ranks_on.find(short_name(node.name));
    if (found == ranks_on.end()) {
      seats.notes.push_back(format("%s has no rank and is left out", node.name.c_str()));
      continue;
    }
    Node taken = node;
    const std::size_t ranks = found->second.size();
    const std::size_t devices = node.kinds.size();
    if (ranks < devices) {
      taken.kinds.resize(ranks);
      seats.notes.push_back(format("%s has %zu devices and %zu rank%s: start one for each device",
                                   node.name.c_str(), devices, ranks, ranks == 1 ? "" : "s"));
    } else if (ranks > devices) {
      seats.free.push_back(node.name);
    }
    for (std::size_t i = 0; i < taken.kinds.size(); ++i) {
      seats.device_of_rank[found->second[i]] = DeviceName{node.name, static_cast<int>(i)};
    }
    seats.cluster.nodes.push_back(std::move(taken));
  }
  leave_out_unused(seats.cluster);
  return seats;
}

}  // namespace hetpipe
