// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_moves.h"
#include "partitioner/planners/search_run.h"

namespace hetpipe {
namespace {

// Moves layers across cuts.
class Polisher {
 public:
  Polisher(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start)
      : space_(space),
        scores_(scores),
        found_(found),
        best_(std::move(start)),
        cluster_(space.row().request.cluster) {}

  ScoredPlan polished(std::int64_t actions) {
    std::int64_t end = scores_.actions() + actions;
    scores_.allow(actions / 2);
    bool alone_helps = cuts_by_themselves();
    const std::int64_t before = scores_.actions();
    scores_.allow(actions);
    alone_helps = orders_by_themselves() || alone_helps;
    end += scores_.actions() - before;
    bool better = true;
    while (better) {
      scores_.allow(end - scores_.actions());
      better = single_cuts();
      better = ends_of_chain() || better;
      better = better || other_depths();
      alone_helps = alone_helps && cuts_by_themselves();
      better = better || alone_helps;
    }
    return best_;
  }

 private:
  // Every cut, of all virtual workers that are alike at once, by the time that one of them takes by
  // itself: that is simulated sooner than the whole plan.
  bool cuts_by_themselves() {
    if (replicated(best_.plan)) return false;
    Plan plan = best_.plan;
    bool better = true;
    while (better) {
      better = false;
      for (const auto& members : alike_workers(cluster_, plan)) {
        better = quicken(plan, members) || better;
      }
    }
    return plan != best_.plan && take_over(found_, plan, best_);
  }

  bool quicken(Plan& plan, const std::vector<std::size_t>& members) {
    return quicken(plan, members, Cuts::single) || quicken(plan, members, Cuts::several);
  }

  bool quicken(Plan& plan, const std::vector<std::size_t>& members, Cuts cuts) {
    bool better = false;
    double least = scores_.alone(plan, members.front()).value_or(0);
    const std::size_t stages = plan.virtual_workers[members.front()].stages.size();
    for (const CutRun run : cut_runs(stages, cuts)) {
      for (const int by : {1, -1}) {
        while (!scores_.spent()) {
          auto other = moved_cuts(plan, members, run, by);
          if (!other || scores_.least_seconds(*other, members.front()) * kBetter >= least) break;
          const auto seconds = scores_.alone(*other, members.front());
          if (!seconds || *seconds * kBetter >= least) break;
          plan = *std::move(other);
          least = *seconds;
          better = true;
        }
      }
    }
    return better;
  }

  // Two stages on devices that differ, exchanged and cut again, likewise.
  bool orders_by_themselves() {
    if (replicated(best_.plan)) return false;
    Plan plan = best_.plan;
    for (const auto& members : alike_workers(cluster_, plan)) {
      const std::size_t worker = members.front();
      double least = scores_.alone(plan, worker).value_or(0);
      const std::size_t stages = plan.virtual_workers[worker].stages.size();
      for (std::size_t j = 0; j + 1 < stages; ++j) {
        for (std::size_t k = j + 1; k < stages && !scores_.spent(); ++k) {
          const PlanVirtualWorker& now = plan.virtual_workers[worker];
          const DeviceName& a = now.stages[j].devices.front();
          const DeviceName& b = now.stages[k].devices.front();
          if (a.node == b.node && &cluster_.kind_of(a) == &cluster_.kind_of(b)) continue;
          Plan other = exchanged_stages(plan, members, j, k);
          quicken(other, members);
          const auto seconds = scores_.alone(other, worker);
          if (!seconds || *seconds * kBetter >= least) continue;
          plan = std::move(other);
          least = *seconds;
        }
      }
    }
    return plan != best_.plan && take_over(found_, plan, best_);
  }

  // Every cut of every virtual worker, whether it seems to set the pace or not.
  bool single_cuts() {
    bool better = false;
    for (std::size_t vw = 0; vw < best_.plan.virtual_workers.size(); ++vw) {
      for (std::size_t k = 0; k + 1 < best_.plan.virtual_workers[vw].stages.size(); ++k) {
        for (const int by : {1, -1}) {
          if (scores_.spent()) return better;
          auto plan = moved_cuts(best_.plan, {vw}, {k, k}, by);
          if (!plan || (replicated(*plan) && !space_.share(*plan))) continue;
          better = take_over(found_, *plan, best_) || better;
        }
      }
    }
    return better;
  }

  // Without servers gradients go up and down a chain of virtual workers (simulator/all_reduce.h):
  // those that are alike first, or last, as the ends of a chain have half of the traffic.
  bool ends_of_chain() {
    if (best_.plan.server) return false;
    for (const auto& members : alike_workers(cluster_, best_.plan)) {
      for (const bool first : {true, false}) {
        if (scores_.spent()) return false;
        Plan plan = best_.plan;
        std::vector<PlanVirtualWorker>& workers = plan.virtual_workers;
        std::vector<PlanVirtualWorker> moved;
        for (auto vw = members.rbegin(); vw != members.rend(); ++vw) {
          const auto at = workers.begin() + static_cast<std::ptrdiff_t>(*vw);
          moved.insert(moved.begin(), std::move(*at));
          workers.erase(at);
        }
        workers.insert(first ? workers.begin() : workers.end(), moved.begin(), moved.end());
        if (workers != best_.plan.virtual_workers && take_over(found_, plan, best_)) return true;
      }
    }
    return false;
  }

  // Which cuts are best hangs on the depth: others, with the cuts moved by themselves.
  bool other_depths() {
    if (replicated(best_.plan)) return false;
    Knobs knobs = space_.knobs_of(best_.plan);
    int& depth = SearchSpace::depth_of(space_, knobs);
    bool better = false;
    for (const int other : depths_around(depth)) {
      if (scores_.spent()) break;
      depth = other;
      Plan plan = space_.with_knobs(best_.plan, knobs);
      for (const auto& members : alike_workers(cluster_, plan)) quicken(plan, members);
      better = take_over(found_, plan, best_) || better;
    }
    return better;
  }

  // The one before, the next two and, of minibatches in flight, a quarter less, half more, twice.
  std::set<int> depths_around(int depth) const {
    const std::vector<int> all =
        space_.depths(std::min(std::max(2 * depth, depth + 2), kMostInFlight));
    const auto now = std::find(all.begin(), all.end(), depth);
    if (now == all.end()) return {};
    std::vector<int> steps{-1, 1, 2};
    if (space_.chooses_in_flight()) {
      steps.insert(steps.end(), {-depth / 4, depth / 2, depth});
    }
    std::set<int> around;
    for (const int step : steps) {
      const auto index = now - all.begin() + step;
      if (index < 0 || index >= std::ssize(all)) continue;
      around.insert(all[static_cast<std::size_t>(index)]);
    }
    around.erase(depth);
    return around;
  }

  SearchSpace& space_;
  PlanScores& scores_;
  FoundPlans& found_;
  ScoredPlan best_;
  const Cluster& cluster_;
};

}  // namespace

ScoredPlan polish(SearchSpace& space, PlanScores& scores, FoundPlans& found, ScoredPlan start,
                  std::int64_t actions) {
  return Polisher(space, scores, found, std::move(start)).polished(actions);
}

}  // namespace hetpipe
