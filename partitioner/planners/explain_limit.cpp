// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "partitioner/cluster/device_type.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/planners/explain_parts.h"

namespace hetpipe {
namespace {

constexpr double kMatters = 0.05;    // what a remedy gives at least to be named beside the first
constexpr double kWaits = 0.1;       // of its time: then the busiest device waits for something
constexpr double kMakesUpFor = 0.5;  // of what waiting costs

void halve_times(Measurement& m) {
  for (auto times : {&Measurement::forward, &Measurement::backward, &Measurement::update,
                     &Measurement::weight_gradient, &Measurement::damped_update,
                     &Measurement::orthogonal_update}) {
    for (double& seconds : m.*times) seconds /= 2;
  }
}

double gain(const ExplainedPlan& asked, const Cluster& cluster, const Profile& profile) {
  return asked.relative(simulate(asked.plan, cluster, profile, kOnlySpeed).throughput);
}

template <class Change>
Cluster with_links(Cluster cluster, const Change& change) {
  change(cluster.intra_node);
  change(cluster.inter_node);
  for (LinkBetween& rule : cluster.between) change(rule.link);
  return cluster;
}

void double_bandwidth(Link& link) { link.bandwidth *= 2; }
void halve_latency(Link& link) { link.latency /= 2; }

// A kind with times of its own computes by these; an emulated one may compute by another's.
void speed_up(DeviceKind& kind, Cluster& cluster, Profile& profile) {
  const auto own = [&](const DeviceKind& of) {
    return std::any_of(profile.measurements.begin(), profile.measurements.end(),
                       [&](const Measurement& m) { return same_device_type(m.device, of.name); });
  };
  if (!own(kind)) {
    if (kind.emulate) kind.emulate->slowdown /= 2;
    return;
  }
  for (Measurement& m : profile.measurements) {
    if (same_device_type(m.device, kind.name)) halve_times(m);
  }
  for (DeviceKind& other : cluster.kinds) {
    if (other.emulate && same_device_type(other.emulate->of, kind.name) && !own(other)) {
      other.emulate->slowdown *= 2;  // as it was
    }
  }
}

double busiest(const ExplainedPlan& asked) {
  double busy = 0;
  for (const SimulatedStage& row : asked.now.stages) busy = std::max(busy, row.busy);
  return busy;
}

// Whether waiting costs something that more in flight makes up for, rather than other hardware.
bool too_little_in_flight(const ExplainedPlan& asked, const Remedies& remedies) {
  const double busy = busiest(asked);
  if (!remedies.depth || busy <= 0 || busy > 1 - kWaits) return false;
  return *remedies.depth >= std::max(kVisibleChange, kMakesUpFor * (1 / busy - 1));
}

// The limits of the hardware, from what gives most.
void decide_hardware(const ExplainedPlan& asked, const Remedies& remedies, Bottleneck& at) {
  std::vector<std::pair<double, const char*>> gains{{remedies.compute, "compute"},
                                                    {remedies.bandwidth, "bandwidth"},
                                                    {remedies.latency, "latency"}};
  std::stable_sort(gains.begin(), gains.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  if (gains[0].first >= kVisibleChange) {
    at.limited_by = gains[0].second;
    if (gains[1].first >= kMatters) at.second = gains[1].second;
    return;
  }
  Profile profile = asked.request.profile;
  for (Measurement& m : profile.measurements) halve_times(m);
  if (gain(asked, with_links(asked.request.cluster, double_bandwidth), profile) >= kVisibleChange) {
    at.limited_by = "compute and bandwidth";
  }
}

// Seconds of a stage that show what limits: of computing only on the kind that gives most, if any
// alone gives something.
double shown(const ExplainedPlan& asked, const Bottleneck& at, const StageCost& cost,
             const PlanStage& stage, const std::vector<Alternative>& kinds) {
  if (at.limited_by == "bandwidth" || at.limited_by == "latency") return cost.receive();
  if (at.limited_by != "compute") return cost.total();
  if (kinds.empty() || kinds.front().relative.value_or(0) < kVisibleChange) return cost.compute();
  const bool of_kind =
      std::any_of(stage.devices.begin(), stage.devices.end(), [&](const DeviceName& device) {
        return asked.request.cluster.kind_of(device).name == kinds.front().what;
      });
  return of_kind ? cost.compute() : 0;
}

}  // namespace

Remedies remedies_for(const ExplainedPlan& asked) {
  const Cluster& cluster = asked.request.cluster;
  Profile faster = asked.request.profile;
  for (Measurement& m : faster.measurements) halve_times(m);
  const Profile& profile = asked.request.profile;
  return {.compute = gain(asked, cluster, faster),
          .bandwidth = gain(asked, with_links(cluster, double_bandwidth), profile),
          .latency = gain(asked, with_links(cluster, halve_latency), profile),
          .depth = gain_of_depth(asked)};
}

std::vector<Alternative> faster_kinds(const ExplainedPlan& asked) {
  std::set<std::string> used;
  for (const DeviceName& device : devices_of(asked.plan)) {
    used.insert(asked.request.cluster.kind_of(device).name);
  }
  std::vector<Alternative> answers;
  if (used.size() < 2) return answers;
  for (const std::string& name : used) {
    Cluster cluster = asked.request.cluster;
    Profile profile = asked.request.profile;
    for (DeviceKind& kind : cluster.kinds) {
      if (kind.name == name) speed_up(kind, cluster, profile);
    }
    Alternative answer{.what = name};
    asked.answer(answer, asked.plan, simulate(asked.plan, cluster, profile, kOnlySpeed).throughput);
    answers.push_back(std::move(answer));
  }
  std::stable_sort(answers.begin(), answers.end(),
                   [](const auto& a, const auto& b) { return *a.relative > *b.relative; });
  return answers;
}

Bottleneck bottleneck_of(const ExplainedPlan& asked, const Remedies& remedies,
                         const std::vector<Alternative>& kinds, bool memory_for_depth) {
  Bottleneck at;
  if (too_little_in_flight(asked, remedies)) {
    at.limited_by = memory_for_depth ? "depth" : "memory";
  } else {
    decide_hardware(asked, remedies, at);
  }
  double most = -1;
  for (std::size_t vw = 0; vw < asked.plan.virtual_workers.size(); ++vw) {
    const VirtualWorkerId id{static_cast<int>(vw)};
    const auto costs = stage_costs(asked.plan, asked.request.cluster, asked.request.profile, id);
    for (std::size_t k = 0; k < costs.size(); ++k) {
      const PlanStage& stage = asked.plan.virtual_workers[vw].stages[k];
      const double seconds = shown(asked, at, costs[k], stage, kinds);
      if (seconds <= most) continue;
      most = seconds;
      at.virtual_worker = id.value;
      at.stage = static_cast<int>(k);
      at.compute_seconds = costs[k].compute();
      at.receive_seconds = costs[k].receive();
    }
  }
  // Of its replicas the busiest.
  const auto vw = static_cast<std::size_t>(at.virtual_worker);
  const auto& devices =
      asked.plan.virtual_workers[vw].stages[static_cast<std::size_t>(at.stage)].devices;
  at.device = devices.front();
  double busiest = -1;
  for (const SimulatedStage& row : asked.now.stages) {
    if (std::find(devices.begin(), devices.end(), row.device) == devices.end()) continue;
    if (row.busy <= busiest) continue;
    busiest = row.busy;
    at.device = row.device;
    at.busy = row.busy;
    at.communication = row.communication;
    at.bubble = row.bubble;
  }
  return at;
}

}  // namespace hetpipe
