// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/profile/profile.h"

// Small pools and models that the tests share.
namespace hetpipe::test {

// Nodes n0, n1, ... with the devices named; a kind per name, all with `memory` bytes.
inline Cluster cluster_of(const std::vector<std::vector<std::string>>& nodes, std::int64_t memory) {
  Cluster cluster;
  for (std::size_t n = 0; n < nodes.size(); ++n) {
    Node node{"n" + std::to_string(n), {}};
    for (const std::string& name : nodes[n]) {
      int kind = 0;
      while (kind < static_cast<int>(cluster.kinds.size()) &&
             cluster.kinds[static_cast<std::size_t>(kind)].name != name) {
        ++kind;
      }
      if (kind == static_cast<int>(cluster.kinds.size())) {
        DeviceKind added;
        added.name = name;
        added.memory = memory;
        cluster.kinds.push_back(added);
      }
      node.kinds.push_back(kind);
    }
    cluster.nodes.push_back(node);
  }
  cluster.intra_node = {10e9, 10e-6, false};
  cluster.inter_node = {1e9, 50e-6, false};
  return cluster;
}

// A chain of equal layers; each kind's forward takes `seconds(kind)`, backward twice that, at
// batch 32.
inline Profile chain_of(int layers, const std::vector<std::string>& kinds,
                        const std::function<double(const std::string&)>& seconds) {
  Profile profile;
  profile.model = "chain";
  for (int l = 0; l < layers; ++l) {
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    if (l > 0) layer.inputs = {l - 1};
    layer.parameter_bytes = 1000;
    profile.layers.push_back(layer);
  }
  const auto count = static_cast<std::size_t>(layers);
  for (const std::string& kind : kinds) {
    Measurement m;
    m.device = kind;
    m.batch = 32;
    m.forward.assign(count, seconds(kind));
    m.backward.assign(count, 2 * seconds(kind));
    m.output_bytes.assign(count, 4000);
    m.stash_bytes.assign(count, 4000);
    profile.measurements.push_back(m);
  }
  return profile;
}

// The text of the UserError that `action` throws; empty when it throws none.
inline std::string user_error(const std::function<void()>& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

}  // namespace hetpipe::test
