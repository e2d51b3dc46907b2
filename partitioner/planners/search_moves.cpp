// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_moves.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/search_compositions.h"

namespace hetpipe {

bool take_over(FoundPlans& found, const Plan& plan, ScoredPlan& best) {
  const auto worth = found.add(plan, "search");
  if (!worth || *worth <= best.worth * kBetter) return false;
  const std::size_t space = best.space;
  best = found.all().back();
  best.space = space;
  return true;
}

std::vector<DeviceName> idle_devices(const Cluster& cluster, const Plan& plan) {
  const std::set<DeviceName> used = devices_of(plan);
  std::vector<DeviceName> idle = cluster.devices();
  std::erase_if(idle, [&](const DeviceName& device) { return used.contains(device); });
  return idle;
}

std::vector<std::vector<std::size_t>> alike_workers(const Cluster& cluster, const Plan& plan) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    std::vector<DeviceName> devices;
    std::string key;
    for (const PlanStage& stage : plan.virtual_workers[vw].stages) {
      key += std::to_string(stage.end_layer) + ':';
      for (const DeviceName& device : stage.devices) {
        key += cluster.kind_of(device).name + ',';
        devices.push_back(device);
      }
    }
    groups[key + worker_key(cluster, devices)].push_back(vw);
  }
  std::vector<std::vector<std::size_t>> result;
  for (auto& [key, members] : groups) result.push_back(std::move(members));
  return result;
}

std::vector<CutRun> cut_runs(std::size_t stages, Cuts cuts) {
  std::vector<CutRun> runs;
  for (std::size_t k = 0; k + 1 < stages; ++k) {
    if (cuts == Cuts::single) {
      runs.push_back({k, k});
      continue;
    }
    for (std::size_t last = k + 1; last + 1 < stages; ++last) runs.push_back({k, last});
  }
  return runs;
}

std::optional<Plan> moved_cuts(Plan plan, const std::vector<std::size_t>& workers, CutRun run,
                               int by) {
  for (const std::size_t vw : workers) {
    auto& stages = plan.virtual_workers[vw].stages;
    for (std::size_t k = run.first; k <= run.last; ++k) {
      stages[k].end_layer += by;
      stages[k + 1].first_layer += by;
    }
    const auto is_empty = [](const PlanStage& s) { return s.end_layer <= s.first_layer; };
    if (is_empty(stages[run.first]) || is_empty(stages[run.last + 1])) return std::nullopt;
  }
  return plan;
}

Plan exchanged_stages(Plan plan, const std::vector<std::size_t>& workers, std::size_t j,
                      std::size_t k) {
  for (const std::size_t vw : workers) {
    std::vector<PlanStage>& stages = plan.virtual_workers[vw].stages;
    std::swap(stages[j], stages[k]);
    int first = 0;
    for (PlanStage& stage : stages) {
      const int layers = stage.end_layer - stage.first_layer;
      stage.first_layer = first;
      stage.end_layer = first += layers;
    }
  }
  return plan;
}

}  // namespace hetpipe
