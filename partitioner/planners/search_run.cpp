// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "partitioner/plan/placement.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

constexpr double kHopeless = 0.5;  // of the best so far, by an estimate: not worth simulating
constexpr std::size_t kManyInSpace = 128;
constexpr int kLongestOfMany = 16;  // stages

// The slowest virtual worker by its part times; index and seconds per minibatch.
std::pair<std::size_t, double> slowest(const SearchSpace& space, const Plan& plan) {
  const PlanRequest& request = space.row().request;
  std::pair<std::size_t, double> result{0, 0};
  std::map<std::string, double> known;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    std::vector<DeviceName> devices;
    std::string key;
    for (const PlanStage& stage : plan.virtual_workers[vw].stages) {
      devices.push_back(stage.devices.front());
      key += std::to_string(stage.end_layer) + request.cluster.kind_of(devices.back()).name + ',';
    }
    key += worker_key(request.cluster, devices);
    const auto [at, is_new] = known.emplace(std::move(key), 0.0);
    if (is_new) {
      const Partition part = evaluate_plan(request.cluster, request.profile, plan,
                                           VirtualWorkerId{static_cast<int>(vw)});
      double sum = 0;
      for (const PartCost& cost : part.costs) sum += cost.total();
      const double slices = plan.micro_batches;
      at->second = space.chooses_in_flight() ? std::max(part.bottleneck, sum / plan.in_flight)
                                             : (sum + (slices - 1) * part.bottleneck) / slices;
    }
    if (at->second > result.second) result = {vw, at->second};
  }
  return result;
}

// Bytes of the server that holds most. Where layers are beside those who own them, few of the bytes
// cross nodes: as if they were spread evenly.
double fullest_shard(const Profile& profile, const Plan& plan, double all) {
  const std::size_t shards = plan.server->nodes.size();
  if (plan.server->placement != "default") return all / static_cast<double>(shards);
  const std::vector<std::int64_t> bytes = own_parameter_bytes(profile);
  const std::vector<int> shard_of = shard_of_layers(plan, bytes);
  std::vector<double> held(shards, 0.0);
  for (std::size_t l = 0; l < bytes.size(); ++l) {
    if (shard_of[l] < 0) continue;
    held[static_cast<std::size_t>(shard_of[l])] += static_cast<double>(bytes[l]);
  }
  return *std::max_element(held.begin(), held.end());
}

// Seconds per minibatch that synchronisation takes: the parameters of every virtual worker through
// the servers' interfaces once a wave (or round), or around a ring.
double sync_seconds(const SearchSpace& space, const Plan& plan) {
  const PlanRequest& request = space.row().request;
  double bytes = 0;
  for (const std::int64_t of_layer : own_parameter_bytes(request.profile)) {
    bytes += static_cast<double>(of_layer);
  }
  const auto workers = static_cast<double>(plan.virtual_workers.size());
  const double bandwidth = std::max(request.cluster.inter_node.bandwidth, 1e-300);
  if (plan.server) {
    return workers * fullest_shard(request.profile, plan, bytes) / bandwidth /
           static_cast<double>(plan.wave_length());
  }
  return 2 * (workers - 1) / workers * bytes / bandwidth;
}

std::size_t most_stages(const Allocation& composition) {
  std::size_t stages = 1;
  for (const auto& devices : composition) stages = std::max(stages, devices.size());
  return stages;
}

// The composition with the depth that its stages call for, or less where memory forbids it; sets
// the depth. Virtual workers are cut again only where nothing fits without.
std::optional<Plan> first_plan(SearchSpace& space, const Allocation& composition, Knobs& knobs) {
  knobs = space.first_knobs(static_cast<int>(most_stages(composition)));
  int& depth = SearchSpace::depth_of(space, knobs);
  const int wanted = depth;
  const std::vector<int> depths = space.depths(wanted);
  for (const Recut recut : {Recut::never, Recut::where_needed}) {
    for (auto at = depths.rbegin(); at != depths.rend(); ++at) {
      if (*at > wanted) continue;
      depth = *at;
      if (auto plan = space.plan(composition, knobs, recut)) return plan;
      if (recut == Recut::where_needed && space.chooses_in_flight()) {
        depth = depths.front();  // more in flight only needs more memory
        return space.plan(composition, knobs, recut);
      }
    }
  }
  return std::nullopt;
}

bool is_large(const SearchSpace& space) {
  return space.row().request.cluster.devices().size() > kManyInSpace;
}

// Waves so long that the servers' interfaces let in all gradients while the slowest virtual worker
// computes, or as long as memory allows. (In small pools steps of the whole plan find that out.)
Plan until_servers_keep_up(SearchSpace& space, const Allocation& composition, Knobs knobs,
                           Plan plan, double seconds) {
  const PlanRequest& request = space.row().request;
  if (!plan.server || !space.chooses_in_flight() || request.in_flight) return plan;
  const auto worth = [&](const Plan& of) {
    return request.worth(of, estimated_throughput(space, of));
  };
  const int least = plan.in_flight;
  const double wave = sync_seconds(space, plan) * least;
  const double wanted = std::min<double>(std::ceil(wave / seconds), kMostInFlight);
  for (int nm = static_cast<int>(wanted); nm > least; nm = (least + nm) / 2) {
    knobs.in_flight = nm;
    auto longer = space.plan(composition, knobs);
    if (longer && worth(*longer) > worth(plan)) return *std::move(longer);
  }
  return plan;
}

// Raises the depth while that is worth more, by the slowest virtual worker, played alone.
std::optional<Plan> deepen(SearchSpace& space, PlanScores& scores, const Allocation& composition,
                           Knobs knobs) {
  const std::vector<int> depths = space.depths(kMostInFlight);
  auto at = std::find(depths.begin(), depths.end(), SearchSpace::depth_of(space, knobs));
  std::optional<Plan> best;
  double best_seconds = 0, best_worth = 0;
  for (int waited = 0; waited < 2 && at < depths.end(); ++at) {
    SearchSpace::depth_of(space, knobs) = *at;
    auto plan = space.plan(composition, knobs);
    if (!plan) break;
    const auto seconds = scores.alone(*plan, slowest(space, *plan).first);
    if (!seconds) break;
    const double worth = space.row().request.worth(*plan, 1 / *seconds);
    waited = worth >= best_worth * kGrowth ? 0 : waited + 1;
    if (waited == 0) {
      best = std::move(plan);
      best_seconds = *seconds;
      best_worth = worth;
    }
    if (scores.spent()) break;
  }
  return best && is_large(space)
             ? until_servers_keep_up(space, composition, knobs, *best, best_seconds)
             : best;
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

double estimated_throughput(const SearchSpace& space, const Plan& plan) {
  const double pipe = slowest(space, plan).second;
  const double sync = sync_seconds(space, plan);
  const double seconds = space.has_server() ? std::max(pipe, sync) : pipe + sync;
  return static_cast<double>(plan.virtual_workers.size()) * space.minibatch() / seconds;
}

// In large pools longer pipelines are not looked at: each takes long to cut.
static int most_devices(const SearchSpace& space) {
  return is_large(space) ? std::min(space.max_stages(), kLongestOfMany) : space.max_stages();
}

std::optional<Plan> deep_plan(SearchSpace& space, PlanScores& scores,
                              const Allocation& composition) {
  Knobs knobs;
  if (!first_plan(space, composition, knobs)) return std::nullopt;
  return deepen(space, scores, composition, knobs);
}

void search_compositions(SearchSpace& space, PlanScores& scores, FoundPlans& found,
                         std::span<const double> kind_speed, const CompositionEffort& effort) {
  const PlanRequest& request = space.row().request;
  struct Ranked {
    double estimate = 0;
    Allocation composition;
    Knobs knobs;
  };
  std::vector<Ranked> ranked;
  for (Allocation& composition : likely_compositions(
           request.cluster, kind_speed, request.virtual_workers, most_devices(space), effort.cut)) {
    // No estimate passes this; the ones below a far better estimate need no cut.
    const double ideal = ideal_throughput(request.cluster, kind_speed, composition);
    std::vector<double> best;
    for (const Ranked& other : ranked) best.push_back(other.estimate);
    std::sort(best.rbegin(), best.rend());
    if (best.size() >= effort.deepened && ideal < best[effort.deepened - 1]) continue;
    Knobs knobs;
    const auto plan = first_plan(space, composition, knobs);
    if (!plan) continue;
    ranked.push_back(
        {request.worth(*plan, estimated_throughput(space, *plan)), std::move(composition), knobs});
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.estimate > b.estimate; });
  std::vector<std::pair<double, Plan>> deep;
  for (std::size_t i = 0; i < std::min(ranked.size(), effort.deepened) && !scores.spent(); ++i) {
    const Allocation& composition = ranked[i].composition;
    auto plan = deepen(space, scores, composition, ranked[i].knobs);
    if (!plan) continue;
    const auto seconds = scores.alone(*plan, slowest(space, *plan).first);
    const double sync = sync_seconds(space, *plan);
    const double paced = space.has_server() ? std::max(*seconds, sync) : *seconds + sync;
    const double worth = request.worth(*plan, static_cast<double>(composition.size()) / paced);
    deep.emplace_back(worth, std::move(*plan));
  }
  std::stable_sort(deep.begin(), deep.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (std::size_t i = 0; i < std::min(deep.size(), effort.simulated); ++i) {
    if (i >= (is_large(space) ? 1 : 2) && scores.spent()) break;
    if (deep[i].first * space.minibatch() < kHopeless * found.best()) break;
    found.add(deep[i].second, "search");
  }
}

}  // namespace hetpipe
