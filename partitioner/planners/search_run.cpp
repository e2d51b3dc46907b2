// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_run.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "partitioner/planners/search_compositions.h"

namespace hetpipe {
namespace {

// A packing knows a few likely cuts; what others may gain.
constexpr double kBetterCuts = 1.1;
constexpr std::size_t kManyInSpace = 128;
constexpr int kSlices = 16;                  // of a minibatch: what fits nearly anywhere
constexpr std::size_t kLikely = 64;          // compositions by rules
constexpr std::size_t kBesidePacked = 16;    // of them, where others are packed
constexpr int kLongestOfMany = 16;           // stages
constexpr std::size_t kSimulatedDepths = 6;  // that are simulated where no estimate holds

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
                                 CutCache& cuts)
    : cluster_(request.cluster), kind_speed_(kind_speed) {
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
  const auto add = [&](std::vector<Allocation> some) {
    for (Allocation& workers : some) {
      if (!seen.insert(composition_key(cluster_, workers)).second) continue;
      const double most = most_of(workers);
      all.push_back({std::move(workers), most});
    }
  };
  for (const Packing& packing : packings_) {
    add(packing.compositions(request.virtual_workers, longest));
  }
  add(likely_compositions(cluster_, kind_speed_, request.virtual_workers, longest,
                          all.empty() ? kLikely : kBesidePacked));
  return known_.emplace(longest, std::move(all)).first->second;
}

void search_compositions(SearchSpace& space, PlanScores& scores, FoundPlans& found,
                         const std::vector<Composition>& compositions, double least,
                         std::size_t simulated) {
  struct Ranked {
    double estimate = 0;
    const Allocation* composition = nullptr;
    std::vector<DepthChoice> choices;
  };
  std::vector<Ranked> ranked;
  std::vector<double> best;  // descending
  for (const auto& [workers, throughput] : compositions) {
    // No estimate is likely to pass `most`; what stays below far better ones needs no cut.
    const double most =
        space.row().request.most_worth(workers.size(), space.minibatch(), throughput);
    if (best.size() >= simulated && most < best[simulated - 1]) continue;
    if (most < least) continue;
    auto choices = depth_choices(space, workers);
    if (choices.empty()) continue;
    const double estimate = choices.front().worth;
    best.insert(std::upper_bound(best.begin(), best.end(), estimate, std::greater<>()), estimate);
    ranked.push_back({estimate, &workers, std::move(choices)});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.estimate > b.estimate; });
  std::map<std::size_t, std::size_t> of_number;  // of virtual workers
  std::size_t taken = 0;
  for (const Ranked& one : ranked) {
    if (taken == simulated || scores.spent() || one.estimate < least) break;
    if (of_number[one.composition->size()] == (simulated + 1) / 2) continue;
    bool runs = false;
    if (estimates_depth(space)) {
      for (const Plan& plan : each_that_fits(space, scores, *one.composition, one.choices)) {
        runs = found.add(plan, "search") || runs;
      }
    } else {
      for (std::size_t i = 0; i < std::min(one.choices.size(), kSimulatedDepths); ++i) {
        const DepthChoice& choice = one.choices[i];
        const auto plan = space.plan(*one.composition, choice.knobs, choice.recut);
        runs = (plan && found.add(*plan, "search")) || runs;
      }
    }
    if (!runs) continue;
    ++of_number[one.composition->size()];
    ++taken;
  }
}

}  // namespace hetpipe
