// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_run.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "partitioner/planners/search_compositions.h"

namespace hetpipe {
namespace {

// A packing knows a few likely cuts; what others may gain.
constexpr double kBetterCuts = 1.1;
constexpr std::size_t kManyInSpace = 128;
constexpr int kSlices = 16;                     // of a minibatch: what fits nearly anywhere
constexpr std::size_t kLikely = 64;             // compositions by rules
constexpr std::size_t kBesidePacked = 16;       // of them, where others are packed
constexpr int kLongestOfMany = 16;              // stages
constexpr std::size_t kPlannedOfSimulated = 4;  // compositions of which plans are made, for each
constexpr double kAsCut = 0.5;                  // times: what may be missing before a cut that fits
constexpr std::size_t kSimulatedDepths = 6;     // that are simulated where no estimate holds

bool is_large(const SearchSpace& space) {
  return space.row().request.cluster.devices().size() > kManyInSpace;
}

// Where one B takes the gradients of all micro-batches, only simulation tells how many are best.
bool estimates_depth(const SearchSpace& space) {
  return traits(space.row().parts.schedule).backward != BackwardForm::by_minibatch;
}

// In large pools longer pipelines are not looked at: each takes long to cut.
int most_devices(const SearchSpace& space) {
  return is_large(space) ? std::min(space.max_stages(), kLongestOfMany) : space.max_stages();
}

}  // namespace

std::vector<ScoredPlan> best_first(std::vector<ScoredPlan> plans) {
  std::stable_sort(plans.begin(), plans.end(),
                   [](const auto& a, const auto& b) { return a.worth > b.worth; });
  return plans;
}

std::optional<double> FoundPlans::add(const Plan& plan, const std::string& origin) {
  // One virtual worker has nobody to exchange rounds with, unless that is what was asked for.
  const bool rounds = traits(composition(plan).sync).rounds;
  if (rounds && plan.virtual_workers.size() == 1 && request_.sync.empty()) return std::nullopt;
  // A planner's own plan is always compared, and some plan has to be found.
  const bool any_time = best_ == 0 || origin != "search";
  const auto throughput = scores_.throughput(
      plan, any_time ? PlanScores::Patience::however_long : PlanScores::Patience::usual);
  if (!throughput) return std::nullopt;
  const double worth = request_.worth(plan, *throughput);
  all_.push_back({plan, *throughput, worth, origin, space_});
  best_ = std::max(best_, worth);
  return worth;
}

CompositionPool::CompositionPool(const PlanRequest& request, std::span<const double> kind_speed,
                                 CutCache& cuts, bool without_each)
    : cluster_(request.cluster),
      whole_(cuts.packings.empty()),
      without_each_(without_each),
      kind_speed_(kind_speed) {
  const int minibatch = *request.minibatch;
  int slices = std::min(minibatch, kSlices);
  while (minibatch % slices != 0) --slices;
  for (const int m : std::set<int>{1, request.micro_batches.value_or(slices)}) {
    std::optional<Packing> known;
    for (const Packing& larger : cuts.packings) {
      if (!known) known = Packing::within(larger, request.cluster, minibatch, m);
    }
    packings_.push_back(known ? *std::move(known) : Packing(request, minibatch, m));
  }
  if (cuts.packings.empty()) cuts.packings = packings_;
}

double CompositionPool::most_of(const Allocation& workers) const {
  double packed = 0;
  for (const Packing& packing : packings_) {
    packed = std::max(packed, packing.throughput(workers).value_or(0));
  }
  const double ideal = ideal_throughput(cluster_, kind_speed_, workers);
  return packed > 0 ? std::min(ideal, kBetterCuts * packed) : ideal;
}

std::vector<Composition> CompositionPool::of(const SearchSpace& space) {
  const int longest = most_devices(space);
  const auto known = known_.find(longest);
  if (known != known_.end()) return known->second;
  const PlanRequest& request = space.row().request;
  std::vector<Composition> all;
  std::set<std::string> seen;
  const auto add = [&](std::vector<Allocation> some, bool always = false) {
    for (Allocation& workers : some) {
      if (!seen.insert(composition_key(cluster_, workers)).second) continue;
      const double most = most_of(workers);
      all.push_back({std::move(workers), most, always});
    }
  };
  if (!request.virtual_workers) add(node_compositions(cluster_, kind_speed_, longest), true);
  for (const Packing& packing : packings_) {
    add(packing.compositions(request.virtual_workers, longest));
  }
  // Where a larger pool's tables serve one with a device less, there is no time for them.
  if (whole_) {
    add(aligned_compositions(cluster_, kind_speed_, request.virtual_workers, longest));
  }
  add(likely_compositions(cluster_, kind_speed_, request.virtual_workers, longest,
                          all.empty() ? kLikely : kBesidePacked));
  if (whole_ && without_each_) {
    const std::vector<DeviceName> devices = cluster_.devices();
    for (const std::size_t d : one_of_each(cluster_, devices)) {
      add(likely_compositions(cluster_, kind_speed_, request.virtual_workers, longest,
                              kBesidePacked, devices[d]));
    }
  }
  return known_.emplace(longest, std::move(all)).first->second;
}

namespace {

// A composition, and what it promises: by its depth choices or, once there are plans that fit, by
// the best of these.
struct Ranked {
  const Composition* composition = nullptr;
  std::vector<DepthChoice> choices;
  std::optional<std::vector<FittingPlan>> plans{};
};

std::vector<FittingPlan> plans_of(SearchSpace& space, PlanScores& scores, const Ranked& ranked) {
  const Allocation& workers = ranked.composition->workers;
  if (estimates_depth(space)) return each_that_fits(space, scores, workers, ranked.choices);
  std::vector<FittingPlan> plans;
  for (std::size_t i = 0; i < std::min(ranked.choices.size(), kSimulatedDepths); ++i) {
    const DepthChoice& choice = ranked.choices[i];
    auto plan = space.plan(workers, choice.knobs, choice.recut);
    if (plan) plans.push_back({*std::move(plan), choice.worth});
  }
  return plans;
}

using Ranking = std::multimap<double, Ranked, std::greater<>>;  // by worth

double best_of(const std::vector<FittingPlan>& plans) {
  double best = 0;
  for (const FittingPlan& plan : plans) best = std::max(best, plan.worth);
  return best;
}

}  // namespace

void search_compositions(SearchSpace& space, PlanScores& scores, FoundPlans& found,
                         const std::vector<Composition>& compositions,
                         const CompositionLimits& limits) {
  Ranking ranked;
  std::vector<double> best;  // descending
  for (const Composition& composition : compositions) {
    // No estimate is likely to pass `most`; what stays below far better ones needs no cut.
    const Allocation& workers = composition.workers;
    const double most =
        space.row().request.most_worth(workers.size(), space.minibatch(), composition.most);
    const auto promises = [&](double worth) {
      return worth >= limits.least && (composition.always || best.size() < limits.simulated ||
                                       worth >= best[limits.simulated - 1]);
    };
    if (most < limits.to_beat || !promises(most)) continue;
    auto choices = depth_choices(space, workers);
    if (choices.empty() || !promises(choices.front().worth)) continue;
    const double worth = worth_as_cut(space, scores, workers, choices);
    best.insert(std::upper_bound(best.begin(), best.end(), worth, std::greater<>()), worth);
    ranked.emplace(worth, Ranked{&composition, std::move(choices)});
  }
  std::size_t planned = 0;
  // Into `to`, by the best plan that fits: it may be worth less than promised as cut, or more.
  const auto make_plans = [&](Ranking::node_type next, Ranking& to) {
    Ranked& one = next.mapped();
    if (planned++ >= kPlannedOfSimulated * limits.simulated && !one.composition->always) return;
    one.plans = plans_of(space, scores, one);
    if (one.plans->empty()) return;
    next.key() = best_of(*one.plans);
    to.insert(std::move(next));
  };
  if (limits.plans_first) {
    Ranking ready;
    while (!ranked.empty() && ranked.begin()->first >= kAsCut * limits.least) {
      make_plans(ranked.extract(ranked.begin()), ready);
    }
    ranked = std::move(ready);
  }
  std::map<std::size_t, std::size_t> of_number;  // of virtual workers
  std::size_t taken = 0;
  while (!ranked.empty() && !scores.spent()) {
    auto next = ranked.extract(ranked.begin());
    Ranked& one = next.mapped();
    if (next.key() < kAsCut * limits.least) return;
    if (one.plans && next.key() < limits.least) continue;
    std::size_t& alike = of_number[one.composition->workers.size()];
    const bool enough = taken >= limits.simulated || alike >= (limits.simulated + 1) / 3;
    if (enough && !one.composition->always) continue;
    if (!one.plans) {
      make_plans(std::move(next), ranked);
      continue;
    }
    bool runs = false;
    for (const FittingPlan& plan : *one.plans) runs = found.add(plan.plan, "search") || runs;
    if (!runs) continue;
    ++alike;
    ++taken;
  }
}

}  // namespace hetpipe
