// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/changed_plan.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cluster/catalogue.h"
#include "partitioner/plan/system.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/planners/what_if.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe {
namespace {

// By the names that its devices have after the change; nothing where it cannot stay as it is.
std::optional<Plan> renamed(Plan plan, const PoolChange& pool) {
  if (pool.before.size() < pool.cluster.devices().size()) return std::nullopt;  // there are more
  std::map<DeviceName, DeviceName> now;
  for (const auto& [name, old] : pool.before) now[old] = name;
  for (PlanVirtualWorker& worker : plan.virtual_workers) {
    for (PlanStage& stage : worker.stages) {
      for (DeviceName& device : stage.devices) {
        const auto found = now.find(device);
        if (found == now.end()) return std::nullopt;
        device = found->second;
      }
    }
  }
  if (!plan.server) return plan;
  for (const std::string& node : plan.server->nodes) {
    if (!pool.cluster.find_node(node)) return std::nullopt;
  }
  return plan;
}

void refuse_settings(const PlanSettings& set, const Plan& plan, const std::string& where) {
  Problems problems;
  const System parts = composition(plan);
  if (set.in_flight && traits(parts.schedule).has_flush) {
    problems.add(where, "in-flight and schedule '" + std::string(to_string(parts.schedule)) +
                            "' (it is flushed after each minibatch). Leave it out.");
  }
  if (set.clock_distance && (!plan.server || !traits(parts.sync).bounded)) {
    problems.add(where, "clock-distance and sync '" + std::string(to_string(parts.sync)) +
                            "' (nothing is bounded by one). Leave it out.");
  }
  problems.throw_if_any();
}

void apply(const PlanSettings& set, const Cluster& cluster, const Profile& profile, Plan& plan) {
  if (set.in_flight) plan.in_flight = *set.in_flight;
  if (set.clock_distance) plan.server->clock_distance = *set.clock_distance;
  if (!set.minibatch) return;
  plan.minibatch = *set.minibatch;
  bool shares = false;
  for (PlanVirtualWorker& worker : plan.virtual_workers) {
    worker.minibatch.reset();
    for (const PlanStage& stage : worker.stages) shares = shares || !stage.shares.empty();
  }
  // Samples that cannot be shared out are check_plan's to refuse.
  const auto most = [](std::size_t least, const PlanVirtualWorker& worker) {
    for (const PlanStage& stage : worker.stages) least = std::max(least, stage.devices.size());
    return least;
  };
  std::size_t replicas = 1;
  for (const PlanVirtualWorker& worker : plan.virtual_workers) replicas = most(replicas, worker);
  const bool slices = plan.minibatch % plan.micro_batches == 0 &&
                      plan.minibatch / plan.micro_batches >= static_cast<int>(replicas);
  if (shares && slices) share_by_speed(request_like(plan, cluster, profile), plan);
}

}  // namespace

PlanRequest request_like(const Plan& plan, Cluster cluster, Profile profile) {
  PlanRequest request;
  request.cluster = std::move(cluster);
  request.profile = std::move(profile);
  request.system = plan.system;
  request.schedule = plan.schedule;
  request.weights = plan.weights;
  request.sync = plan.sync;
  request.minibatch = plan.minibatch;
  request.precision = plan.precision;
  request.optimizer = plan.optimizer;
  request.ema = plan.ema;
  request.objective = PlanObjective::time_to_accuracy;
  if (plan.server) {
    request.clock_distance = plan.server->clock_distance;
    request.server_nodes = plan.server->nodes;
    request.placement = plan.server->placement;
    request.scale = plan.server->scale;
    request.pull = plan.server->pull;
    request.push_precision = plan.server->push_precision;
    if (traits(composition(plan).sync).rounds) {
      request.round = plan.server->round;
      request.outer_rate = plan.server->outer_rate;
      request.outer_momentum = plan.server->outer_momentum;
    }
  }
  return request;
}

ChangedPlan changed_plan(const Plan& plan, const Cluster& cluster, const Profile& profile,
                         std::string_view changes, const std::string& where) {
  PoolChange pool = changed_pool(cluster, changes, try_catalogue_kind, catalogue_names(), where);
  refuse_settings(pool.settings, plan, where);
  ChangedPlan changed;
  changed.cluster = std::move(pool.cluster);
  changed.profile = with_estimates(
      profile, changed.cluster, plan.precision, [&](const DeviceKind&) { return where; },
      plan.runtime);
  pool.cluster = changed.cluster;
  if (auto same = renamed(plan, pool)) {
    changed.plan = std::move(*same);
    apply(pool.settings, changed.cluster, changed.profile, changed.plan);
  } else {
    PlanRequest request = request_like(plan, changed.cluster, changed.profile);
    std::erase_if(request.server_nodes,
                  [&](const std::string& node) { return !changed.cluster.find_node(node); });
    const PlanSettings& set = pool.settings;
    if (set.minibatch) request.minibatch = set.minibatch;
    if (set.in_flight) request.in_flight = set.in_flight;
    if (set.clock_distance) request.clock_distance = set.clock_distance;
    changed.plan = make_plan(request);
    changed.plan.runtime = plan.runtime;
    changed.planned_anew = true;
  }
  check_plan(changed.plan, where, &changed.cluster,
             static_cast<int>(changed.profile.layers.size()));
  return changed;
}

}  // namespace hetpipe
