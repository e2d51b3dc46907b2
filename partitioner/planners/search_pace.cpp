// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/search_pace.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>

#include "base/index.h"
#include "partitioner/plan/placement.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

constexpr std::size_t kTriedDepths = 6;
constexpr int kEachDepth = 16;  // of minibatches in flight; beyond, fewer of them

// Of a pass through all stages, what stages wait while a pipeline fills and drains: where the
// gradients of weights are left for last (ZB-H1), they fill two thirds of it.
constexpr double kBubbleOfSplit = 1.0 / 3;

double seconds_at(const SearchSpace& space, const WorkerPace& pace, int depth) {
  if (space.chooses_in_flight()) return std::max(pace.bottleneck, pace.sum / depth);
  const ScheduleTraits& schedule = traits(space.row().parts.schedule);
  double bubble = pace.sum - pace.bottleneck;
  if (schedule.backward == BackwardForm::split) bubble *= kBubbleOfSplit;
  if (schedule.overlaps_micro_batches()) bubble = 0;
  return pace.bottleneck + bubble / depth;
}

// Every layer's gradients go around the ring of its virtual workers, which leaves each of their
// nodes once, or stays inside the only one.
double all_reduce_seconds(const Cluster& cluster, const Plan& plan,
                          const std::vector<std::int64_t>& bytes) {
  const auto workers = static_cast<double>(plan.virtual_workers.size());
  const double rounds = 2 * (workers - 1) / workers;
  std::set<int> cuts;  // of any virtual worker: between two of them layers have the same nodes
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    for (const PlanStage& stage : worker.stages) cuts.insert(stage.end_layer);
  }
  std::vector<std::size_t> stage_of(plan.virtual_workers.size(), 0);
  std::map<std::string_view, double> seconds;  // by node
  int first = 0;
  for (const int end : cuts) {
    std::set<std::string_view> nodes;
    for (std::size_t vw = 0; vw < stage_of.size(); ++vw) {
      const std::vector<PlanStage>& stages = plan.virtual_workers[vw].stages;
      if (stages[stage_of[vw]].end_layer <= first) ++stage_of[vw];
      nodes.insert(stages[stage_of[vw]].devices.front().node);
    }
    double sum = 0;
    for (int l = first; l < end; ++l) sum += static_cast<double>(at(bytes, l));
    const Link& link = nodes.size() > 1 ? cluster.inter_node : cluster.intra_node;
    for (const std::string_view node : nodes) {
      seconds[node] += rounds * sum / std::max(link.bandwidth, 1e-300);
    }
    first = end;
  }
  double most = 0;
  for (const auto& [node, sum] : seconds) most = std::max(most, sum);
  return most;
}

// Seconds that a synchronisation takes: the parameters of every virtual worker to the servers
// through the nodes' interfaces, or around rings.
double sync_seconds(const SearchSpace& space, const Plan& plan) {
  const PlanRequest& request = space.row().request;
  const std::vector<std::int64_t> bytes = own_parameter_bytes(request.profile);
  if (!plan.server) return all_reduce_seconds(request.cluster, plan, bytes);
  const double bandwidth = std::max(request.cluster.inter_node.bandwidth, 1e-300);
  const std::vector<int> shard_of = shard_of_layers(plan, bytes);
  std::map<std::string_view, double> out, in;  // by node
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    for (const PlanStage& stage : worker.stages) {
      const std::string& here = stage.devices.front().node;
      for (int l = stage.first_layer; l < stage.end_layer; ++l) {
        const int shard = at(shard_of, l);
        if (shard < 0 || at(plan.server->nodes, shard) == here) continue;
        out[here] += static_cast<double>(at(bytes, l));
        in[at(plan.server->nodes, shard)] += static_cast<double>(at(bytes, l));
      }
    }
  }
  double most = 0;
  for (const auto& [node, sum] : out) most = std::max(most, sum);
  for (const auto& [node, sum] : in) most = std::max(most, sum);
  return most / bandwidth;  // of the parameters as they are pulled
}

double throughput_at(const SearchSpace& space, const std::vector<WorkerPace>& paces, double sync,
                     const Plan& plan) {
  double pipe = 0, passage = 0;
  const int depth = space.chooses_in_flight() ? plan.in_flight : plan.micro_batches;
  for (const WorkerPace& pace : paces) {
    pipe = std::max(pipe, seconds_at(space, pace, depth));
    passage = std::max(passage, pace.sum);
  }
  double seconds = pipe + sync;
  if (plan.server) {
    // From a wave's last minibatch, by its push and its pull, to that of the wave D + 1 later.
    const auto wave = static_cast<double>(plan.wave_length());
    const double push = plan.server->halves_pushes() ? sync / 2 : sync;
    const double gate = (passage + push + sync) / (wave * (plan.server->clock_distance + 1));
    // The newest is known, and asked for, at the gate alone.
    const double pull = plan.server->pulls_newest() ? sync / wave : 0;
    seconds = std::max({pipe + pull, sync / wave, gate});
  }
  return static_cast<double>(plan.virtual_workers.size()) * space.minibatch() / seconds;
}

std::size_t most_stages(const Allocation& composition) {
  std::size_t stages = 1;
  for (const auto& devices : composition) stages = std::max(stages, devices.size());
  return stages;
}

}  // namespace

double estimated_throughput(SearchSpace& space, const Plan& plan) {
  return throughput_at(space, space.paces(plan), sync_seconds(space, plan), plan);
}

std::vector<DepthChoice> depth_choices(SearchSpace& space, const Allocation& composition) {
  const PlanRequest& request = space.row().request;
  std::vector<DepthChoice> choices;
  Knobs knobs = space.first_knobs(static_cast<int>(most_stages(composition)));
  int& depth = SearchSpace::depth_of(space, knobs);
  std::optional<Plan> plan;
  std::vector<WorkerPace> paces;
  std::vector<std::pair<Plan, Knobs>> served;  // by other servers
  std::vector<double> sync;
  for (const int d : space.depths(kMostInFlight)) {
    depth = d;
    for (const Recut recut : space.recuts(d)) {
      // How many are in flight changes no part's time.
      if (!plan || !space.chooses_in_flight()) {
        plan = space.plan(composition, knobs, recut);
        if (!plan) {
          if (space.chooses_in_flight()) return choices;
          continue;
        }
        paces = space.paces(*plan);
        served.clear();
        sync.clear();
        for (const Knobs& servers : space.with_servers(knobs)) {
          served.emplace_back(space.with_knobs(*plan, servers), servers);
          sync.push_back(sync_seconds(space, served.back().first));
        }
      }
      if (d > kEachDepth && d % (d / kEachDepth) != 0) continue;
      for (std::size_t i = 0; i < served.size(); ++i) {
        auto& [by, with] = served[i];
        by.in_flight = with.in_flight = knobs.in_flight;
        choices.push_back(
            {with, recut, request.worth(by, throughput_at(space, paces, sync[i], by)), sync[i]});
      }
    }
  }
  std::stable_sort(choices.begin(), choices.end(), [](const auto& a, const auto& b) {
    return std::pair(a.worth, -a.sync) > std::pair(b.worth, -b.sync);
  });
  return choices;
}

std::optional<Plan> first_that_fits(SearchSpace& space, PlanScores& scores,
                                    const Allocation& composition,
                                    const std::vector<DepthChoice>& choices) {
  int too_deep = kMostInFlight + 1;  // more in flight needs more memory
  std::size_t tried = 0;
  for (const DepthChoice& choice : choices) {
    if (space.chooses_in_flight() && choice.knobs.in_flight >= too_deep) continue;
    if (++tried > kTriedDepths) break;
    const auto plan = space.plan(composition, choice.knobs, choice.recut);
    if (plan && scores.fits(*plan)) return plan;
    too_deep = choice.knobs.in_flight;
  }
  if (!space.chooses_in_flight() || choices.empty()) return std::nullopt;
  Knobs least = choices.front().knobs;
  least.in_flight = space.depths(1).front();
  auto plan = space.plan(composition, least);
  return plan && scores.fits(*plan) ? plan : std::nullopt;
}

std::vector<Plan> each_that_fits(SearchSpace& space, PlanScores& scores,
                                 const Allocation& composition,
                                 const std::vector<DepthChoice>& choices) {
  std::vector<Plan> plans;
  std::vector<DepthChoice> left = choices;
  while (!left.empty()) {
    const Recut recut = left.front().recut;
    std::vector<DepthChoice> alike;
    std::copy_if(left.begin(), left.end(), std::back_inserter(alike),
                 [&](const DepthChoice& choice) { return choice.recut == recut; });
    std::erase_if(left, [&](const DepthChoice& choice) { return choice.recut == recut; });
    auto plan = first_that_fits(space, scores, composition, alike);
    if (plan && (plans.empty() || plans.front() != *plan)) plans.push_back(*std::move(plan));
  }
  return plans;
}

std::optional<Plan> deep_plan(SearchSpace& space, PlanScores& scores,
                              const Allocation& composition) {
  return first_that_fits(space, scores, composition, depth_choices(space, composition));
}

}  // namespace hetpipe
