// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_pace.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_traffic.h"

namespace hetpipe {
namespace {

constexpr std::size_t kTriedDepths = 6;
constexpr int kEachDepth = 16;  // of minibatches in flight; beyond, fewer of them

double seconds_at(const SearchSpace& space, const WorkerPace& pace, int depth) {
  if (space.chooses_in_flight()) return std::max(pace.bottleneck, pace.sum / depth);
  const ScheduleTraits& schedule = traits(space.row().parts.schedule);
  double bubble = pace.sum - pace.bottleneck;
  if (schedule.backward == BackwardForm::split) bubble *= kBubbleOfSplit;
  if (schedule.overlaps_micro_batches()) bubble = 0;
  return pace.bottleneck + bubble / depth;
}

double throughput_at(const SearchSpace& space, const std::vector<WorkerPace>& paces,
                     const MessageSeconds& messages, const SyncSeconds& sync, const Plan& plan) {
  double pipe = 0, passage = 0;
  const int depth = space.chooses_in_flight() ? plan.in_flight : plan.micro_batches;
  for (const WorkerPace& pace : paces) {
    pipe = std::max(pipe, seconds_at(space, pace, depth));
    passage = std::max(passage, pace.sum);
  }
  const auto wave = plan.server ? static_cast<double>(plan.wave_length()) : 1.0;
  const double links = std::max({busiest(messages.out, sync.out, wave),
                                 busiest(messages.in, sync.in, wave), sync.inside / wave});
  double seconds = std::max(pipe, links) + sync.push;
  if (plan.server) {
    // From a wave's last minibatch, by its push and its pull, to that of the wave D + 1 later.
    const double gate = (passage + sync.both()) / (wave * (plan.server->clock_distance + 1));
    seconds = std::max({pipe, links, gate});
    // The newest is known, and asked for, at the gate alone: each stage waits for its part.
    if (plan.server->pulls_newest()) {
      for (std::size_t vw = 0; vw < paces.size(); ++vw) {
        for (std::size_t k = 0; k < paces[vw].stages.size(); ++k) {
          seconds = std::max(seconds, paces[vw].stages[k] + sync.pulls[vw][k] / wave);
        }
      }
    }
  }
  return static_cast<double>(plan.virtual_workers.size()) * space.minibatch() / seconds;
}

std::size_t most_stages(const Allocation& composition) {
  std::size_t stages = 1;
  for (const auto& devices : composition) stages = std::max(stages, devices.size());
  return stages;
}

// The choices of one composition.
class DepthChooser {
 public:
  DepthChooser(SearchSpace& space, const Allocation& composition)
      : space_(space),
        composition_(composition),
        knobs_(space.first_knobs(static_cast<int>(most_stages(composition)))) {}

  // Adds those of a depth, for all servers; false where it cannot be cut.
  bool choose(int depth, Recut recut) {
    SearchSpace::depth_of(space_, knobs_) = depth;
    if (!plan_ || !space_.chooses_in_flight()) {
      plan_ = space_.plan(composition_, knobs_, recut);
      if (!plan_) return false;
      time();
    }
    if (depth > kEachDepth && depth % (depth / kEachDepth) != 0) return true;
    const PlanRequest& request = space_.row().request;
    for (std::size_t i = 0; i < served_.size(); ++i) {
      auto& [by, with] = served_[i];
      by.in_flight = with.in_flight = knobs_.in_flight;
      const double worth =
          request.worth(by, throughput_at(space_, paces_, messages_, sync_[i], by));
      choices_.push_back({with, recut, worth, sync_[i].both()});
    }
    return true;
  }

  bool can_be_cut(int depth) {
    Knobs knobs = knobs_;
    SearchSpace::depth_of(space_, knobs) = depth;
    return space_.plan(composition_, knobs, Recut::where_needed).has_value();
  }

  // Of these depths the one that promises most.
  int best_of(const std::vector<int>& depths) const {
    const auto most = [&](int depth) {
      double worth = 0;
      for (const DepthChoice& choice : choices_) {
        Knobs knobs = choice.knobs;
        if (SearchSpace::depth_of(space_, knobs) == depth) worth = std::max(worth, choice.worth);
      }
      return worth;
    };
    return *std::max_element(depths.begin(), depths.end(),
                             [&](int a, int b) { return most(a) < most(b); });
  }

  std::vector<DepthChoice> best_first() && {
    std::stable_sort(choices_.begin(), choices_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.worth, -a.sync) > std::pair(b.worth, -b.sync);
    });
    return std::move(choices_);
  }

 private:
  void time() {
    paces_ = space_.paces(*plan_);
    messages_ = message_seconds(paces_, *plan_);
    served_.clear();
    sync_.clear();
    const std::vector<Knobs> all = space_.with_servers(knobs_, *plan_);
    served_.reserve(all.size());  // what sync_ calls nodes by stays in its place
    for (const Knobs& servers : all) {
      served_.emplace_back(space_.with_knobs(*plan_, servers), servers);
      sync_.push_back(sync_seconds(space_, served_.back().first, paces_));
    }
  }

  SearchSpace& space_;
  const Allocation& composition_;
  Knobs knobs_;
  std::optional<Plan> plan_;
  std::vector<WorkerPace> paces_;
  MessageSeconds messages_;
  std::vector<std::pair<Plan, Knobs>> served_;  // by other servers
  std::vector<SyncSeconds> sync_;               // of each of these
  std::vector<DepthChoice> choices_;
};

// The last of these that fits, where more need more memory; 0: none.
template <typename Fits>
int deepest(const std::vector<int>& depths, const Fits& fits) {
  const auto end = std::partition_point(depths.begin(), depths.end(), fits);
  return end == depths.begin() ? 0 : *std::prev(end);
}

// The most minibatches in flight, below those of a choice that does not fit, that fit; 0: none.
int most_in_flight(SearchSpace& space, PlanScores& scores, const Allocation& composition,
                   const DepthChoice& choice) {
  Knobs knobs = choice.knobs;
  std::vector<int> depths = space.depths(choice.knobs.in_flight - 1);
  std::erase_if(depths, [&](int d) { return d >= choice.knobs.in_flight; });
  return deepest(depths, [&](int d) {
    knobs.in_flight = d;
    const auto plan = space.plan(composition, knobs, choice.recut);
    return plan && scores.fits(*plan);
  });
}

}  // namespace

double estimated_throughput(SearchSpace& space, const Plan& plan) {
  const std::vector<WorkerPace> paces = space.paces(plan);
  return throughput_at(space, paces, message_seconds(paces, plan), sync_seconds(space, plan, paces),
                       plan);
}

std::vector<DepthChoice> depth_choices(SearchSpace& space, const Allocation& composition) {
  DepthChooser chooser(space, composition);
  std::vector<int> slow;  // depths that are cut by themselves, which takes long
  const std::vector<int> depths = space.depths(kMostInFlight);
  // More slices of a minibatch need less memory; only what is not sliced has nothing to unpack.
  if (!space.chooses_in_flight() && depths.size() > 2 && !chooser.can_be_cut(depths.back())) {
    chooser.choose(depths.front(), Recut::where_needed);
    return std::move(chooser).best_first();
  }
  for (const int d : depths) {
    const std::vector<Recut> ways = space.recuts(d);
    // How many are in flight changes no part's time.
    if (ways.size() == 1 || !chooser.choose(d, Recut::for_few_slices)) {
      if (!chooser.choose(d, Recut::where_needed) && space.chooses_in_flight()) return {};
    } else {
      slow.push_back(d);
    }
  }
  if (!slow.empty()) chooser.choose(chooser.best_of(slow), Recut::where_needed);
  return std::move(chooser).best_first();
}

double worth_as_cut(SearchSpace& space, PlanScores& scores, const Allocation& composition,
                    const std::vector<DepthChoice>& choices) {
  if (!space.chooses_in_flight()) return choices.front().worth;
  Knobs least = choices.front().knobs;
  const std::vector<int> depths = space.depths(kMostInFlight);
  least.in_flight = depths.front();
  const auto plan = space.plan(composition, least);
  std::map<int, int> most;  // by clock distance: minibatches in flight
  for (const DepthChoice& choice : choices) {
    const auto [known, is_new] = most.emplace(choice.knobs.clock_distance, 0);
    if (is_new && plan) {
      Knobs knobs = choice.knobs;
      known->second = deepest(depths, [&](int d) {
        knobs.in_flight = d;
        return scores.fits(space.with_knobs(*plan, knobs));
      });
    }
    if (choice.knobs.in_flight <= known->second) return choice.worth;
  }
  return choices.back().worth;
}

std::optional<FittingPlan> best_that_fits(SearchSpace& space, PlanScores& scores,
                                          const Allocation& composition,
                                          const std::vector<DepthChoice>& choices) {
  std::optional<FittingPlan> best;
  std::map<int, int> most;  // by clock distance: minibatches in flight
  std::size_t tried = 0;
  for (const DepthChoice& choice : choices) {
    if (best && choice.worth <= best->worth) break;
    const auto known = most.find(choice.knobs.clock_distance);
    if (known != most.end() && choice.knobs.in_flight > known->second) continue;
    if (++tried > kTriedDepths) break;
    auto plan = space.plan(composition, choice.knobs, choice.recut);
    if (plan && scores.fits(*plan)) {
      // Cut for less memory, it may take longer.
      const double worth = space.row().request.worth(*plan, estimated_throughput(space, *plan));
      if (!best || worth > best->worth) best = {*std::move(plan), worth};
    } else if (space.chooses_in_flight()) {
      most[choice.knobs.clock_distance] = most_in_flight(space, scores, composition, choice);
    }
  }
  return best;
}

std::vector<FittingPlan> each_that_fits(SearchSpace& space, PlanScores& scores,
                                        const Allocation& composition,
                                        const std::vector<DepthChoice>& choices) {
  std::vector<FittingPlan> plans;
  std::vector<DepthChoice> left = choices;
  while (!left.empty()) {
    const Recut recut = left.front().recut;
    std::vector<DepthChoice> alike;
    std::copy_if(left.begin(), left.end(), std::back_inserter(alike),
                 [&](const DepthChoice& choice) { return choice.recut == recut; });
    std::erase_if(left, [&](const DepthChoice& choice) { return choice.recut == recut; });
    auto fits = best_that_fits(space, scores, composition, alike);
    if (fits && (plans.empty() || plans.front().plan != fits->plan)) {
      plans.push_back(*std::move(fits));
    }
  }
  return plans;
}

std::optional<Plan> deep_plan(SearchSpace& space, PlanScores& scores,
                              const Allocation& composition) {
  auto fits = best_that_fits(space, scores, composition, depth_choices(space, composition));
  return fits ? std::optional(std::move(fits->plan)) : std::nullopt;
}

}  // namespace hetpipe
