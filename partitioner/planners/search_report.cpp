// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_report.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "partitioner/cost/memory.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/planners/search_compositions.h"

namespace hetpipe {
namespace {

constexpr std::size_t kTriedAgain = 4;  // kinds of idle devices, and places for each

// The composition with the device in one virtual worker after the other, and as one more.
std::vector<Allocation> with_device(const Plan& plan, const DeviceName& device, bool one_more) {
  const Allocation composition = composition_of(plan);
  std::vector<Allocation> result;
  if (one_more) {
    result.push_back(composition);
    result.back().push_back({device});
  }
  for (std::size_t vw = 0; vw < composition.size(); ++vw) {
    result.push_back(composition);
    result.back()[vw].push_back(device);
  }
  return result;
}

}  // namespace

const ScoredPlan* least_stale(const std::vector<ScoredPlan>& plans, double at_least) {
  double best = 0;
  for (const ScoredPlan& plan : plans) best = std::max(best, plan.worth);
  const double least = std::max(best * (1 - kWorthIt), at_least);
  const auto rank = [](const ScoredPlan& scored) {
    const Plan& plan = scored.plan;
    return std::tuple(staleness_of(plan), plan.server ? plan.server->clock_distance : 0,
                      -scored.worth);
  };
  const ScoredPlan* chosen = nullptr;
  for (const ScoredPlan& plan : plans) {
    if (plan.worth < least) continue;
    if (chosen == nullptr || rank(plan) < rank(*chosen)) chosen = &plan;
  }
  return chosen;
}

std::vector<LeftOut> left_out(const ScoredPlan& chosen, SearchSpace& space, PlanScores& scores,
                              FoundPlans& found) {
  const PlanRequest& request = space.row().request;
  const std::set<DeviceName> used = devices_of(chosen.plan);
  const Knobs knobs = space.knobs_of(chosen.plan);
  std::map<std::pair<std::string, std::string>, std::optional<double>> known;  // (node, kind)
  std::vector<LeftOut> result;
  for (const DeviceName& device : request.cluster.devices()) {
    if (used.contains(device)) continue;
    const auto [change, is_new] =
        known.emplace(std::pair(device.node, request.cluster.kind_of(device).name), std::nullopt);
    if (is_new) {
      double best = 0;
      for (const ScoredPlan& other : found.all()) {
        if (other.worth <= best) continue;
        const std::set<DeviceName> devices = devices_of(other.plan);
        const bool as_well =
            devices.contains(device) &&
            std::includes(devices.begin(), devices.end(), used.begin(), used.end());
        if (as_well) best = other.worth;
      }
      // The search cuts stages of one device: others would be compared with something else.
      if (known.size() <= kTriedAgain && !replicated(chosen.plan)) {
        std::set<std::string> seen;
        for (Allocation& more : with_device(chosen.plan, device, !request.virtual_workers)) {
          if (seen.size() == kTriedAgain || scores.spent()) break;
          if (!seen.insert(composition_key(request.cluster, more)).second) continue;
          if (const auto plan = space.plan(more, knobs)) {
            best = std::max(best, found.add(*plan, "search").value_or(0));
          }
        }
      }
      if (best > 0) change->second = best / chosen.worth - 1;
    }
    result.push_back({device, change->second});
  }
  return result;
}

std::vector<SearchCandidate> considered(const std::vector<ScoredPlan>& plans) {
  std::map<std::tuple<std::string, std::string, int, std::size_t>, const ScoredPlan*> best;
  for (const ScoredPlan& found : plans) {
    const ScoredPlan*& plan = best[{found.origin, found.plan.system, found.plan.minibatch,
                                    found.plan.virtual_workers.size()}];
    if (plan == nullptr || found.worth > plan->worth) plan = &found;
  }
  std::vector<SearchCandidate> result;
  for (const auto& [key, plan] : best) {
    result.push_back({plan->origin, describe(plan->plan), plan->throughput, "", plan->worth,
                      plan->plan.minibatch});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.worth > b.worth; });
  return result;
}

Plan with_forecast(const PlanRequest& request, const ScoredPlan& scored) {
  Plan plan = scored.plan;
  Prediction prediction;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    auto& stages = plan.virtual_workers[vw].stages;
    const VirtualWorkerId id{static_cast<int>(vw)};
    const bool whole = std::all_of(stages.begin(), stages.end(),
                                   [](const PlanStage& s) { return s.devices.size() == 1; });
    if (!whole) {
      predict_stages(request, plan, id);
      continue;
    }
    const Partition part = evaluate_plan(request.cluster, request.profile, plan, id);
    for (std::size_t k = 0; k < stages.size(); ++k) {
      const PartCost& cost = part.costs[k];
      const double slices = plan.micro_batches;
      stages[k].predicted = StagePrediction{
          cost.forward_seconds / slices, cost.backward_seconds / slices,
          (cost.receive_activations_seconds + cost.receive_gradients_seconds) / slices,
          stage_ledger(plan, request.cluster, request.profile, id, StageId{static_cast<int>(k)})
              .total()};
    }
    prediction.bottleneck = std::max(prediction.bottleneck, part.bottleneck);
  }
  if (plan.predicted && prediction.bottleneck == 0) {
    prediction.bottleneck = plan.predicted->bottleneck;
  }
  prediction.throughput = scored.throughput;
  plan.predicted = prediction;
  return plan;
}

}  // namespace hetpipe
