// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_leave_out.h"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/search_smaller_pools.h"
#include "partitioner/planners/search_space.h"

namespace hetpipe {
namespace {

constexpr double kPays = 1.001;          // of worth: what leaving a device out must bring
constexpr double kLosesNothing = 0.999;  // of it: what a device may cost that is not missed

// A smaller pool, and what its devices are called in the whole one.
struct Pool {
  Cluster cluster;
  std::vector<DeviceName> removed;  // by their names at the time, in this order
};

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

void leave_out_what_costs(
    const PlanRequest& request, SearchResult& result, bool groups,
    const std::function<SearchResult(const PlanRequest& less, bool idle)>& search) {
  Pool pool{request.cluster, {}};
  Pool chosen = pool;
  std::set<PoolShape> asked;  // with less to beat: a second time they would give no more
  bool one_less = false;      // than in the chosen pool, without being worth more
  const double with_all = result.worth;
  PlanRequest less = request;
  for (bool better = true; better && pool.cluster.devices().size() > 1;) {
    better = false;
    std::optional<Pool> not_missed;
    const std::set<DeviceName> of_plan = devices_of(result.plan);
    std::set<DeviceName> used;  // by their names in the pool
    for (const DeviceName& device : pool.cluster.devices()) {
      if (of_plan.contains(renamed(device, pool.removed))) used.insert(device);
    }
    for (const auto& [cluster, gone] : smaller_pools(pool.cluster, used, groups, asked)) {
      const bool idle = std::none_of(gone.begin(), gone.end(),
                                     [&](const DeviceName& d) { return used.contains(d); });
      less.cluster = cluster;
      try {
        const SearchResult found = search(less, idle);
        result.simulations += found.simulations;
        result.actions += found.actions;
        const bool pays = found.worth > result.worth * kPays;
        const bool may_go =
            !idle && gone.size() == 1 && !not_missed && found.worth >= result.worth * kLosesNothing;
        if (!pays && !may_go) continue;
        Pool smaller{cluster, pool.removed};
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
  std::vector<std::string> names;
  for (auto gone = chosen.removed.begin(); gone != chosen.removed.end(); ++gone) {
    const DeviceName device = renamed(*gone, {chosen.removed.begin(), gone});
    names.push_back(request.cluster.kind_of(device).name + " of " + device.node);
  }
  result.considered.insert(
      result.considered.begin(),
      {"search without " + join(names, ", "), describe(result.plan),
       result.plan.predicted->throughput, "", result.worth, result.plan.minibatch});
}

}  // namespace hetpipe
