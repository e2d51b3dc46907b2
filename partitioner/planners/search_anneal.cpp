// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_moves.h"
#include "partitioner/planners/search_run.h"

namespace hetpipe {
namespace {

// The relative loss of worth that is accepted with probability 1/e, at first and at last.
constexpr double kHot = 0.02;
constexpr double kCold = 0.001;

// Draws that are the same on every machine.
class Draws {
 public:
  explicit Draws(unsigned walk) : random_(walk) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  double share() { return static_cast<double>(random_()) / 4294967296.0; }  // of one

 private:
  std::mt19937 random_;
};

// A plan of unreplicated stages that differs in one thing.
class Neighbours {
 public:
  Neighbours(const SearchSpace& space, Draws& draws)
      : space_(space), cluster_(space.row().request.cluster), draws_(draws) {}

  // Nothing where what was drawn cannot be done.
  std::optional<Plan> of(const Plan& plan) {
    const double which = draws_.share();
    if (which < 0.45) return with_cut_moved(plan);
    if (which < 0.7) return with_device_moved(plan);
    if (which < 0.95) return with_devices_exchanged(plan);
    return with_other_depth(plan);
  }

 private:
  std::optional<Plan> with_cut_moved(const Plan& plan) {
    const std::size_t vw = draws_.below(plan.virtual_workers.size());
    const std::size_t stages = plan.virtual_workers[vw].stages.size();
    if (stages < 2) return std::nullopt;
    const std::size_t k = draws_.below(stages - 1);
    return moved_cuts(plan, {vw}, {k, k}, draws_.one_in(2) ? 1 : -1);
  }

  // An idle device into a stage, or one out of its stage into another one or, of one in four, out
  // of the plan: the stage beside it takes its layers.
  std::optional<Plan> with_device_moved(Plan plan) {
    const std::vector<DeviceName> idle = idle_devices(cluster_, plan);
    std::vector<std::pair<std::size_t, std::size_t>> stages;
    for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
      for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
        stages.emplace_back(vw, k);
      }
    }
    const std::size_t from = draws_.below(stages.size() + idle.size());
    if (from >= stages.size()) return with_stage_split(plan, idle[from - stages.size()]);
    const auto [vw, k] = stages[from];
    std::vector<PlanStage>& of = plan.virtual_workers[vw].stages;
    if (of.size() == 1) return std::nullopt;
    const DeviceName device = of[k].devices.front();
    if (k > 0 && (k + 1 == of.size() || draws_.one_in(2))) {
      of[k - 1].end_layer = of[k].end_layer;
    } else {
      of[k + 1].first_layer = of[k].first_layer;
    }
    of.erase(of.begin() + static_cast<std::ptrdiff_t>(k));
    if (draws_.one_in(4)) return plan;
    return with_stage_split(std::move(plan), device);
  }

  // The device takes the first or the last layers of a stage.
  std::optional<Plan> with_stage_split(Plan plan, const DeviceName& device) {
    std::vector<PlanStage>& stages =
        plan.virtual_workers[draws_.below(plan.virtual_workers.size())].stages;
    const std::size_t k = draws_.below(stages.size());
    const int layers = stages[k].end_layer - stages[k].first_layer;
    if (layers < 2 || static_cast<int>(stages.size()) >= space_.max_stages()) return std::nullopt;
    const int at = stages[k].first_layer + 1 +
                   static_cast<int>(draws_.below(static_cast<std::size_t>(layers - 1)));
    PlanStage front = stages[k];
    front.end_layer = stages[k].first_layer = at;
    (draws_.one_in(2) ? front : stages[k]).devices = {device};
    stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(k), std::move(front));
    return plan;
  }

  // Of two stages, or of a stage and an idle one.
  std::optional<Plan> with_devices_exchanged(Plan plan) {
    std::vector<DeviceName> idle = idle_devices(cluster_, plan);
    std::vector<DeviceName*> devices;
    for (PlanVirtualWorker& worker : plan.virtual_workers) {
      for (PlanStage& stage : worker.stages) devices.push_back(&stage.devices.front());
    }
    const std::size_t used = devices.size();
    for (DeviceName& device : idle) devices.push_back(&device);
    DeviceName& a = *devices[draws_.below(used)];
    DeviceName& b = *devices[draws_.below(devices.size())];
    if (a.node == b.node && &cluster_.kind_of(a) == &cluster_.kind_of(b)) return std::nullopt;
    std::swap(a, b);
    return plan;
  }

  std::optional<Plan> with_other_depth(const Plan& plan) {
    Knobs knobs = space_.knobs_of(plan);
    int& depth = SearchSpace::depth_of(space_, knobs);
    const std::vector<int> all = space_.depths(kMostInFlight);
    const auto now = std::find(all.begin(), all.end(), depth);
    const bool deeper = draws_.one_in(2);
    if (now == all.end() || now == (deeper ? all.end() - 1 : all.begin())) return std::nullopt;
    depth = deeper ? *(now + 1) : *(now - 1);
    return space_.with_knobs(plan, knobs);
  }

  const SearchSpace& space_;
  const Cluster& cluster_;
  Draws& draws_;
};

// The worth at which the busiest device would never wait: no simulation says more.
double most_worth(const PlanRequest& request, PlanScores& scores, const Plan& plan) {
  double slowest = 0;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    slowest = std::max(slowest, scores.least_seconds(plan, vw));
  }
  const double samples = static_cast<double>(plan.virtual_workers.size()) * plan.minibatch;
  return slowest > 0 ? request.worth(plan, samples / slowest) : kInfinity;
}

}  // namespace

ScoredPlan anneal(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
                  const AnnealingLimits& limits) {
  if (replicated(start.plan)) return start;
  const PlanRequest& request = space.row().request;
  Draws draws(limits.walk);
  Neighbours neighbours(space, draws);
  Plan now = start.plan, best = start.plan;
  double worth = start.worth, most = start.worth;
  scores.allow(limits.actions);
  const std::int64_t begin = scores.actions();
  for (int step = 0; step < limits.steps && !scores.spent(); ++step) {
    const auto other = neighbours.of(now);
    if (!other) continue;
    const double along = std::max(
        static_cast<double>(step) / limits.steps,
        static_cast<double>(scores.actions() - begin) / static_cast<double>(limits.actions));
    const double heat = kHot * std::pow(kCold / kHot, std::min(along, 1.0));
    const double accepted = worth * (1 + heat * std::log(draws.share()));
    const Plan plan = space.with_knobs(*other, space.knobs_of(*other));
    if (most_worth(request, scores, plan) < accepted) continue;
    const auto about = scores.about(plan);
    if (!about) continue;
    const double its_worth = request.worth(plan, *about);
    if (its_worth < accepted) continue;
    now = plan;
    worth = its_worth;
    if (worth <= most * kBetter) continue;
    const auto throughput = scores.throughput(plan);
    if (!throughput || request.worth(plan, *throughput) <= most * kBetter) continue;
    most = request.worth(plan, *throughput);
    best = now;
  }
  if (most > start.worth) take_over(found, best, start);
  return start;
}

}  // namespace hetpipe
