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
#include "partitioner/planners/search_sums.h"

namespace hetpipe {
namespace {

// The relative loss of worth that is accepted with probability 1/e, at first and at last.
constexpr double kHot = 0.02;
constexpr double kCold = 0.001;
// Of worth: by how much what virtual workers promise by themselves may be too little.
constexpr double kMisjudged = 0.03;

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

// What virtual workers by themselves and an estimate of their sums promise. A step changes one or
// two of them, and the others are known: it takes a fraction of a simulation.
std::optional<double> promised_worth(SearchSpace& space, PlanScores& scores, const Plan& plan) {
  auto seconds = scores.slowest_alone(plan);
  if (!seconds) return std::nullopt;
  if (!plan.server && traits(composition(plan).schedule).has_flush) {
    *seconds += seconds_of_sums(space, plan, space.paces(plan));
  }
  const double samples = static_cast<double>(plan.virtual_workers.size()) * plan.minibatch;
  return space.row().request.worth(plan, samples / *seconds);
}

// Where a walk is. Steps are judged by promises, in relation to the plan from which they lead, and
// then by a short simulation; rounds, whose simulation takes many times as long, by promises alone
// until one would be the best.
class Walk {
 public:
  Walk(SearchSpace& space, PlanScores& scores, const ScoredPlan& start, double promised)
      : space_(space),
        scores_(scores),
        seldom_(exchanges_seldom(start.plan)),
        now_(start.plan),
        worth_(start.worth),
        promised_(promised),
        best_(start.plan),
        most_(start.worth) {}

  const Plan& now() const { return now_; }
  double worth() const { return worth_; }
  const Plan& best() const { return best_; }
  double most() const { return most_; }

  void try_step(const Plan& plan, double least) {
    const PlanRequest& request = space_.row().request;
    if (most_worth(request, scores_, plan) < least) return;
    const auto promised = promised_worth(space_, scores_, plan);
    if (!promised) return;
    double worth = worth_ * *promised / promised_;
    if (worth < (seldom_ ? least : least * (1 - kMisjudged))) return;
    if (!seldom_ || worth > most_) {
      const auto about = scores_.about(plan);
      if (!about) return;
      worth = request.worth(plan, *about);
      if (worth < least) return;
    }
    now_ = plan;
    worth_ = worth;
    promised_ = *promised;
    if (worth <= most_ * kBetter) return;
    const auto throughput = scores_.throughput(plan);
    if (!throughput || request.worth(plan, *throughput) <= most_ * kBetter) return;
    most_ = request.worth(plan, *throughput);
    best_ = plan;
  }

 private:
  SearchSpace& space_;
  PlanScores& scores_;
  bool seldom_;
  Plan now_;
  double worth_;
  double promised_;
  Plan best_;
  double most_;
};

}  // namespace

ScoredPlan anneal(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
                  const AnnealingLimits& limits) {
  if (replicated(start.plan)) return start;
  Draws draws(limits.walk);
  Neighbours neighbours(space, draws);
  scores.allow(limits.actions);
  const std::int64_t begin = scores.actions();
  const auto promised = promised_worth(space, scores, start.plan);
  if (!promised) return start;
  Walk walk(space, scores, start, *promised);
  for (int step = 0; step < limits.steps && !scores.spent(); ++step) {
    const auto other = neighbours.of(walk.now());
    if (!other) continue;
    const double along = std::max(
        static_cast<double>(step) / limits.steps,
        static_cast<double>(scores.actions() - begin) / static_cast<double>(limits.actions));
    const double heat = kHot * std::pow(kCold / kHot, std::min(along, 1.0));
    const double least = walk.worth() * (1 + heat * std::log(draws.share()));
    walk.try_step(space.with_knobs(*other, space.knobs_of(*other)), least);
  }
  if (walk.most() > start.worth) take_over(found, walk.best(), start);
  return start;
}

}  // namespace hetpipe
