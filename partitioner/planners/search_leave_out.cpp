// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_leave_out.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/search_space.h"

namespace hetpipe {
namespace {

constexpr double kPays = 1.001;            // of worth: what leaving a device out must bring
constexpr double kLosesNothing = 0.999;    // of it: what a device may cost that is not missed
constexpr std::size_t kFewToLeaveOut = 5;  // of which any may be left out together

// A smaller pool, and what its devices are called in the whole one.
struct Pool {
  Cluster cluster;
  std::vector<DeviceName> removed;  // by their names at the time, in this order
};

// The last device of each kind on each node.
std::vector<DeviceName> one_of_each(const Cluster& cluster) {
  std::vector<DeviceName> devices = cluster.devices();
  std::reverse(devices.begin(), devices.end());
  std::set<std::pair<std::string, std::string>> seen;
  std::erase_if(devices, [&](const DeviceName& device) {
    return !seen.emplace(device.node, cluster.kind_of(device).name).second;
  });
  return devices;
}

// Devices that are left out together, those of larger indices first: one of each kind on each node;
// in `groups` also all of a kind on a node, and all of one or more nodes.
std::vector<std::vector<DeviceName>> candidates(const Cluster& cluster, bool groups) {
  std::vector<std::vector<DeviceName>> result;
  for (const DeviceName& device : one_of_each(cluster)) result.push_back({device});
  if (!groups) return result;
  std::vector<DeviceName> devices = cluster.devices();
  std::reverse(devices.begin(), devices.end());
  const auto add = [&](const auto& is_gone) {
    std::vector<DeviceName> gone;
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(gone), is_gone);
    if (gone.size() == devices.size()) return;
    if (std::find(result.begin(), result.end(), gone) == result.end()) result.push_back(gone);
  };
  for (const DeviceName& device : one_of_each(cluster)) {
    add([&](const DeviceName& other) {
      return other.node == device.node && &cluster.kind_of(other) == &cluster.kind_of(device);
    });
  }
  std::set<std::string> names;
  for (const DeviceName& device : devices) names.insert(device.node);
  const std::vector<std::string> nodes(names.begin(), names.end());
  if (nodes.size() > kFewToLeaveOut) return result;
  for (unsigned some = 1; some + 1 < 1U << nodes.size(); ++some) {
    add([&](const DeviceName& device) {
      const auto node = std::find(nodes.begin(), nodes.end(), device.node) - nodes.begin();
      return (some >> node & 1U) != 0;
    });
  }
  return result;
}

// What a device that is left is called in the whole pool.
DeviceName renamed(DeviceName device, const std::vector<DeviceName>& removed) {
  for (auto gone = removed.rbegin(); gone != removed.rend(); ++gone) {
    if (device.node == gone->node && device.index >= gone->index) ++device.index;
  }
  return device;
}

Plan renamed(Plan plan, const std::vector<DeviceName>& removed) {
  for (PlanVirtualWorker& worker : plan.virtual_workers) {
    for (PlanStage& stage : worker.stages) {
      for (DeviceName& device : stage.devices) device = renamed(device, removed);
    }
  }
  return plan;
}

}  // namespace

Cluster without_device(const Cluster& cluster, const DeviceName& device) {
  Cluster less = cluster;
  Node& node = at(less.nodes, less.find_node(device.node)->value);
  node.kinds.erase(node.kinds.begin() + device.index);
  return less;
}

void leave_out_what_costs(
    const PlanRequest& request, SearchResult& result, bool groups,
    const std::function<SearchResult(const PlanRequest& less, bool idle)>& search) {
  Pool pool{request.cluster, {}};
  Pool chosen = pool;
  bool one_less = false;  // than in the chosen pool, without being worth more
  const double with_all = result.worth;
  PlanRequest less = request;
  for (bool better = true; better && pool.cluster.devices().size() > 1;) {
    better = false;
    std::optional<Pool> not_missed;
    const std::set<DeviceName> used = devices_of(result.plan);
    for (const std::vector<DeviceName>& gone : candidates(pool.cluster, groups)) {
      less.cluster = pool.cluster;
      bool idle = true;
      for (const DeviceName& device : gone) {
        less.cluster = without_device(less.cluster, device);
        idle = idle && !used.contains(renamed(device, pool.removed));
      }
      try {
        const SearchResult found = search(less, idle);
        result.simulations += found.simulations;
        result.actions += found.actions;
        const bool pays = found.worth > result.worth * kPays;
        const bool may_go =
            !idle && gone.size() == 1 && !not_missed && found.worth >= result.worth * kLosesNothing;
        if (!pays && !may_go) continue;
        Pool smaller{less.cluster, pool.removed};
        smaller.removed.insert(smaller.removed.end(), gone.begin(), gone.end());
        if (!pays) {
          not_missed = std::move(smaller);
          continue;
        }
        result.worth = found.worth;
        result.plan = renamed(found.plan, smaller.removed);
        chosen = std::move(smaller);
        better = true;
      } catch (const UserError&) {
        continue;  // nothing fits what is left
      }
    }
    if (better) {
      pool = chosen;
      one_less = false;
    } else if (not_missed && !one_less) {
      // Two of a kind may only slow down together.
      pool = *std::move(not_missed);
      better = one_less = true;
    }
  }
  if (chosen.removed.empty()) return;
  // Each idle device: the best plan that could have used it is that of the whole pool.
  const std::set<DeviceName> used = devices_of(result.plan);
  result.left_out.clear();
  for (const DeviceName& device : request.cluster.devices()) {
    if (!used.contains(device)) result.left_out.push_back({device, with_all / result.worth - 1});
  }
  note_inputs(request, result.plan);
  std::vector<std::string> names;
  for (const DeviceName& device : chosen.removed) {
    names.push_back(request.cluster.kind_of(device).name + " of " + device.node);
  }
  result.considered.insert(
      result.considered.begin(),
      {"search without " + join(names, ", "), describe(result.plan),
       result.plan.predicted->throughput, "", result.worth, result.plan.minibatch});
}

}  // namespace hetpipe
