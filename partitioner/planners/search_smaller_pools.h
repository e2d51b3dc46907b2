// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <set>
#include <string>
#include <vector>

#include "partitioner/cluster/cluster.h"

namespace hetpipe {

// A pool without some of its devices.
struct SmallerPool {
  Cluster cluster;
  std::vector<DeviceName> gone;  // of a node those of larger indices first
};

// A pool without one of its devices.
Cluster without_device(const Cluster& cluster, const DeviceName& device);

// What tells pools apart: the kinds of each node, with its name where links depend on it.
using PoolShape = std::vector<std::string>;

// The pool without any one device, and with `groups` also without two of a kind on nodes that are
// alike, all of a kind, on a node or anywhere, and any of up to five nodes. Of pools of one shape
// only the first, and none of a shape in `asked`, to which theirs are added; `used` are left out
// after the others.
std::vector<SmallerPool> smaller_pools(const Cluster& cluster, const std::set<DeviceName>& used,
                                       bool groups, std::set<PoolShape>& asked);

}  // namespace hetpipe
