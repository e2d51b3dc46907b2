// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_moves.h"
#include "partitioner/planners/search_run.h"

namespace hetpipe {
namespace {

constexpr double kNearlyAsSlow = 0.9;  // of the slowest virtual worker's time
constexpr std::array kMessageWeights{1.0, 0.2};
constexpr std::size_t kTriedByEstimate = 4;  // compositions one step away that are simulated

class Improver {
 public:
  Improver(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
           std::span<const double> kind_speed, bool several)
      : space_(space),
        scores_(scores),
        found_(found),
        best_(std::move(start)),
        speed_(kind_speed),
        cluster_(space.row().request.cluster),
        small_(cluster_.devices().size() <= kSmallPool),
        several_(several) {}

  void run() {
    recut();
    bool better = true;
    while (better && !scores_.spent()) {
      better = cuts();
      better = knobs() || better;
      better = (replicated(best_.plan) ? replicas() : devices()) || better;
    }
  }

 private:
  // A simulation that counts; true and taken over when it is better.
  bool take(const Plan& plan) { return !scores_.spent() && take_over(found_, plan, best_); }

  // The same virtual workers, cut as if messages cost more or less of the time, and in all ways.
  void recut() {
    if (replicated(best_.plan)) return;
    Knobs knobs = space_.knobs_of(best_.plan);
    const Allocation now = composition_of(best_.plan);
    for (const Recut how : space_.recuts(SearchSpace::depth_of(space_, knobs))) {
      for (const double weight : kMessageWeights) {
        if (const auto plan = space_.plan(now, knobs, how, weight)) take(*plan);
      }
    }
  }

  bool knobs() {
    bool better = false;
    const Knobs now = space_.knobs_of(best_.plan);
    for (const Knobs& knobs : space_.with_servers(now, best_.plan)) {
      if (knobs != now) better = take(space_.with_knobs(best_.plan, knobs)) || better;
    }
    if (small_) {
      const Knobs served = space_.knobs_of(best_.plan);
      for (const Knobs& knobs : space_.with_one_server(served)) {
        if (knobs != served) better = take(space_.with_knobs(best_.plan, knobs)) || better;
      }
    }
    for (const int step : {1, 2, -1}) {
      Knobs knobs = space_.knobs_of(best_.plan);
      int& depth = SearchSpace::depth_of(space_, knobs);
      const std::vector<int> all = space_.depths(std::min(depth + 2, kMostInFlight));
      const auto at = std::find(all.begin(), all.end(), depth);
      if (at == all.end()) continue;
      const auto index = at - all.begin() + step;
      if (index < 0 || index >= static_cast<std::ptrdiff_t>(all.size())) continue;
      depth = all[static_cast<std::size_t>(index)];
      better = take(space_.with_knobs(best_.plan, knobs)) || better;
    }
    return better;
  }

  // The virtual worker that is slowest alone sets the pace, or one that is nearly as slow: their
  // cuts, and those of all like them.
  bool cuts() {
    std::vector<std::pair<double, std::vector<std::size_t>>> slow;
    for (auto& group : alike_workers(cluster_, best_.plan)) {
      const double seconds = scores_.alone(best_.plan, group.front()).value_or(0);
      slow.emplace_back(seconds, std::move(group));
    }
    std::stable_sort(slow.begin(), slow.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    const double nearly = kNearlyAsSlow * slow.front().first;
    bool better = false;
    for (const auto& [seconds, members] : slow) {
      if (seconds > 0 && seconds >= nearly) better = cuts_of(members, seconds) || better;
    }
    return better;
  }

  bool cuts_of(const std::vector<std::size_t>& members, double most) {
    return cuts_of(members, most, Cuts::single) ||
           (several_ && cuts_of(members, most, Cuts::several));
  }

  bool cuts_of(const std::vector<std::size_t>& members, double most, Cuts cuts) {
    bool better = false;
    const std::size_t stages = best_.plan.virtual_workers[members.front()].stages.size();
    for (const CutRun run : cut_runs(stages, cuts)) {
      for (const int by : {1, -1}) {
        if (scores_.spent()) return better;
        const auto plan = moved_cuts(best_.plan, members, run, by);
        if (!plan || scores_.least_seconds(*plan, members.front()) * kBetter >= most) continue;
        const auto seconds = scores_.alone(*plan, members.front());
        if (!seconds || *seconds * kBetter >= most) continue;
        if (!take(*plan)) continue;
        most = *seconds;
        better = true;
      }
    }
    return better;
  }

  // One device out of a stage that has several, out of one into another, an idle one in.
  bool replicas() {
    std::vector<Plan> plans;
    const auto& workers = best_.plan.virtual_workers;
    const auto of = [](Plan& plan, std::size_t vw, std::size_t k) -> PlanStage& {
      return plan.virtual_workers[vw].stages[k];
    };
    std::vector<std::pair<std::size_t, std::size_t>> stages;  // one of each that are alike
    for (const auto& group : alike_workers(cluster_, best_.plan)) {
      for (std::size_t k = 0; k < workers[group.front()].stages.size(); ++k) {
        stages.emplace_back(group.front(), k);
      }
    }
    if (stages.size() > kMostWorkers) stages.resize(kMostWorkers);
    for (const auto& [vw, k] : stages) {
      const std::vector<DeviceName>& devices = workers[vw].stages[k].devices;
      for (const std::size_t i : one_of_each(cluster_, devices)) {
        Plan without = best_.plan;
        if (devices.size() == 1) {
          if (workers[vw].stages.size() > 1 || workers.size() == 1) continue;
          without.virtual_workers.erase(without.virtual_workers.begin() + static_cast<long>(vw));
          plans.push_back(std::move(without));
          continue;
        }
        PlanStage& stage = of(without, vw, k);
        stage.devices.erase(stage.devices.begin() + static_cast<long>(i));
        plans.push_back(without);
        for (const auto& [other, j] : stages) {
          if (other == vw && j == k) continue;
          plans.push_back(without);
          of(plans.back(), other, j).devices.push_back(devices[i]);
        }
      }
    }
    const std::vector<DeviceName> idle = useful_idle_devices();
    for (const std::size_t i : one_of_each(cluster_, idle)) {
      for (const auto& [vw, k] : stages) {
        plans.push_back(best_.plan);
        of(plans.back(), vw, k).devices.push_back(idle[i]);
      }
    }
    bool better = false;
    for (Plan& plan : plans) {
      if (space_.row().request.virtual_workers &&
          plan.virtual_workers.size() !=
              static_cast<std::size_t>(*space_.row().request.virtual_workers)) {
        continue;
      }
      if (!space_.share(plan) || !take(plan)) continue;
      better = true;
      break;
    }
    return better;
  }

  std::vector<DeviceName> useful_idle_devices() const {
    std::vector<DeviceName> idle = idle_devices(cluster_, best_.plan);
    std::erase_if(idle, [&](const DeviceName& device) { return speed(device) <= 0; });
    return idle;
  }

  double speed(const DeviceName& device) const {
    return speed_[static_cast<std::size_t>(&cluster_.kind_of(device) - cluster_.kinds.data())];
  }

  // Compositions one step away, ranked by estimate.
  bool devices() {
    const PlanRequest& request = space_.row().request;
    const Knobs knobs = space_.knobs_of(best_.plan);
    const Allocation now = composition_of(best_.plan);
    struct Ranked {
      double estimate = 0;
      Allocation composition;
      std::vector<DepthChoice> choices;
    };
    std::vector<Ranked> ranked;
    std::set<std::string> seen;
    const auto look = [&](Allocation composition) {
      std::erase_if(composition, [](const auto& devices) { return devices.empty(); });
      if (composition.empty()) return;
      if (space_.row().request.virtual_workers &&
          composition.size() != static_cast<std::size_t>(*space_.row().request.virtual_workers)) {
        return;
      }
      // The order of worker_key is made here too, so that the cuts of alike ones are looked up.
      if (!seen.insert(composition_key(cluster_, composition)).second) return;
      if (ideal_throughput(cluster_, speed_, composition) <= best_.worth) return;
      // Other devices may call for another depth.
      if (small_) {
        auto choices = depth_choices(space_, composition);
        if (choices.empty()) return;
        const double estimate = worth_as_cut(space_, scores_, composition, choices);
        ranked.push_back({estimate, std::move(composition), std::move(choices)});
      } else if (const auto plan = space_.plan(composition, knobs)) {
        const double estimate = request.worth(*plan, estimated_throughput(space_, *plan));
        ranked.push_back(
            {estimate, std::move(composition), {{knobs, Recut::where_needed, estimate}}});
      }
    };
    for_each_step(now, look);
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.estimate > b.estimate; });
    for (std::size_t i = 0; i < std::min(ranked.size(), kTriedByEstimate); ++i) {
      bool better = false;
      for (const FittingPlan& fits :
           each_that_fits(space_, scores_, ranked[i].composition, ranked[i].choices)) {
        better = take(fits.plan) || better;
      }
      if (better) return true;
    }
    return false;
  }

  // Steps between one virtual worker of each kind of them (alike ones give alike steps): a device
  // out, into another one, exchanged, an idle one in.
  void for_each_step(const Allocation& now, const std::function<void(Allocation)>& look) const {
    std::vector<std::size_t> some;  // two of each group, for steps between alike ones
    for (const auto& group : alike_workers(cluster_, best_.plan)) {
      some.insert(some.end(), group.begin(),
                  group.begin() + static_cast<long>(std::min<std::size_t>(group.size(), 2)));
    }
    if (some.size() > kMostWorkers) some.resize(kMostWorkers);
    for (const std::size_t a : some) {
      for (const std::size_t i : one_of_each(cluster_, now[a])) {
        Allocation without = now;
        without[a].erase(without[a].begin() + static_cast<long>(i));
        look(without);
        for (const std::size_t b : some) {
          if (b == a) continue;
          Allocation moved = without;
          moved[b].push_back(now[a][i]);
          look(std::move(moved));
          for (const std::size_t j : one_of_each(cluster_, now[b])) {
            if (b < a || speed(now[a][i]) == speed(now[b][j])) continue;
            Allocation exchanged = now;
            std::swap(exchanged[a][i], exchanged[b][j]);
            look(std::move(exchanged));
          }
        }
      }
    }
    const std::vector<DeviceName> idle = useful_idle_devices();
    for (const std::size_t d : one_of_each(cluster_, idle)) {
      Allocation one_more = now;
      one_more.push_back({idle[d]});
      look(std::move(one_more));
      for (const std::size_t a : some) {
        Allocation larger = now;
        larger[a].push_back(idle[d]);
        look(std::move(larger));
      }
    }
  }

  static constexpr std::size_t kMostWorkers = 8;

  SearchSpace& space_;
  PlanScores& scores_;
  FoundPlans& found_;
  ScoredPlan best_;
  std::span<const double> speed_;
  const Cluster& cluster_;
  bool small_;    // every depth is estimated at every step
  bool several_;  // cuts at once
};

}  // namespace

void improve(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
             std::span<const double> kind_speed, bool several) {
  Improver(space, scores, found, std::move(start), kind_speed, several).run();
}

}  // namespace hetpipe
