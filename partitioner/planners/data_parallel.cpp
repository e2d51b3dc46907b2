// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/data_parallel.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/planners/replicated.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

PlanStage whole_model(const PlanRequest& request, std::vector<DeviceName> devices) {
  PlanStage stage;
  stage.end_layer = static_cast<int>(request.profile->layers.size());
  stage.devices = std::move(devices);
  return stage;
}

double seconds_on(const PlanRequest& request, const DeviceName& device, int samples) {
  const auto costs = tables_of(request)->costs(request.profile, request.cluster.kind_of(device),
                                               samples, Updates::plain);
  return std::accumulate(costs->forward.begin(), costs->forward.end(), 0.0) +
         std::accumulate(costs->backward.begin(), costs->backward.end(), 0.0);
}

// One stage of all devices.
Plan replicas(const PlanRequest& request, const std::vector<DeviceName>& devices, int minibatch,
              int micro_batches) {
  Plan plan = blank_plan(request);
  plan.minibatch = minibatch;
  plan.micro_batches = micro_batches;
  plan.in_flight = 1;
  plan.virtual_workers.push_back({std::nullopt, {whole_model(request, devices)}});
  share_by_speed(request, plan);
  return plan;
}

// Devices that sum their gradients before every update. With rounds, those of a node: what they
// exchange stays inside.
std::vector<std::vector<DeviceName>> groups_of(const PlanRequest& request,
                                               const std::vector<DeviceName>& devices) {
  const bool by_node = traits(composition(request).sync).rounds;
  std::vector<std::vector<DeviceName>> groups;
  for (const DeviceName& device : devices) {
    if (groups.empty() || !by_node || groups.back().front().node != device.node)
      groups.push_back({});
    groups.back().push_back(device);
  }
  return groups;
}

// A replica needs a sample of each micro-batch: the fastest devices go first.
void keep_fastest(const PlanRequest& request, std::vector<DeviceName>& devices, int samples) {
  if (samples >= static_cast<int>(devices.size())) return;
  std::stable_sort(devices.begin(), devices.end(), [&](const auto& a, const auto& b) {
    return seconds_on(request, a, 1) < seconds_on(request, b, 1);
  });
  devices.resize(static_cast<std::size_t>(samples));
}

// One virtual worker per group.
Plan workers(const PlanRequest& request, const std::vector<DeviceName>& devices, int minibatch,
             int micro_batches) {
  Plan plan = blank_plan(request);
  plan.minibatch = minibatch;
  plan.micro_batches = micro_batches;
  plan.in_flight = request.in_flight.value_or(1);
  for (std::vector<DeviceName>& group : groups_of(request, devices)) {
    keep_fastest(request, group, minibatch / micro_batches);
    plan.virtual_workers.push_back({std::nullopt, {whole_model(request, std::move(group))}});
  }
  plan.server = server_of(request);
  share_by_speed(request, plan);
  return plan;
}

double objective(const PlanRequest& request, const Plan& plan) {
  double slowest = 0;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    const PlanStage& stage = vw.stages[0];
    const int samples = plan.minibatch / plan.micro_batches;
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      const int share =
          stage.shares.empty() ? samples / static_cast<int>(stage.devices.size()) : stage.shares[r];
      slowest = std::max(
          slowest, plan.micro_batches * seconds_on(request, stage.devices[r], std::max(1, share)));
    }
  }
  const auto n = static_cast<double>(plan.virtual_workers[0].stages[0].devices.size());
  if (n < 2) return slowest;
  double bytes = 0;
  for (const std::int64_t of_layer : own_parameter_bytes(request.profile)) {
    bytes += static_cast<double>(of_layer);
  }
  const SlowestLinks links = slowest_links(request.cluster);
  const auto& devices = plan.virtual_workers[0].stages[0].devices;
  const bool cross = std::any_of(devices.begin(), devices.end(), [&](const DeviceName& d) {
    return d.node != devices.front().node;
  });
  const Link& link = cross ? links.across : links.within;
  return slowest + 2 * (n - 1) / n * bytes / link.bandwidth + 2 * (n - 1) * link.latency;
}

// The devices that can hold their part, alone with it; a smaller part needs less. UserError when
// none can.
std::vector<DeviceName> holders(const PlanRequest& request, bool all_reduce, int part,
                                int micro_batches) {
  std::vector<DeviceName> devices;
  std::string shortage = "the cluster has none";
  std::map<int, bool> known;  // [kind]
  for (const DeviceName& device : request.cluster.devices()) {
    const auto [kind, fresh] = known.try_emplace(kind_index(request.cluster, device), true);
    if (fresh) {
      const auto plan_of = all_reduce ? replicas : workers;
      const std::string why =
          memory_shortage(request, plan_of(request, {device}, part, micro_batches));
      kind->second = why.empty();
      if (!why.empty()) shortage = why;
    }
    if (kind->second) devices.push_back(device);
  }
  if (devices.empty()) {
    throw UserError("", "no device can hold the whole model (" + shortage +
                            "). Use a smaller --minibatch, or a pipeline: --system hetpipe.");
  }
  return devices;
}

// Those that lack the memory for their share leave, until all fit: the others' shares grow.
Plan all_that_fit(const PlanRequest& request, std::vector<DeviceName> devices, int minibatch,
                  int micro_batches) {
  std::string shortage;
  while (!devices.empty()) {
    Plan plan = replicas(request, devices, minibatch, micro_batches);
    shortage = memory_shortage(request, plan);
    if (shortage.empty()) return plan;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const DeviceName& device : devices) {
      least = std::min(least, request.cluster.kind_of(device).for_plans());
    }
    std::erase_if(devices, [&](const DeviceName& device) {
      return request.cluster.kind_of(device).for_plans() == least;
    });
  }
  throw UserError("", "the minibatch does not fit the devices (" + shortage +
                          "). Use a smaller --minibatch or more --micro-batches.");
}

Plan all_reduced(const PlanRequest& request) {
  refuse_virtual_workers(request, "data parallelism with all-reduce");
  const int micro_batches = request.micro_batches.value_or(1);
  const int batch = default_minibatch(request);
  const int part = request.minibatch ? micro_batches : batch;
  check_slices(part, micro_batches);
  auto devices = holders(request, true, part, micro_batches);
  const int minibatch = request.minibatch.value_or(batch * static_cast<int>(devices.size()));
  check_slices(minibatch, micro_batches);
  keep_fastest(request, devices, minibatch / micro_batches);
  return all_that_fit(request, std::move(devices), minibatch, micro_batches);
}

Plan with_server(const PlanRequest& request) {
  const int micro_batches = request.micro_batches.value_or(1);
  const int minibatch = request.minibatch.value_or(default_minibatch(request));
  check_slices(minibatch, micro_batches);
  const auto devices = holders(request, false, minibatch, micro_batches);
  Plan plan = workers(request, devices, minibatch, micro_batches);
  const std::size_t formed = plan.virtual_workers.size();
  const auto most =
      static_cast<std::size_t>(request.virtual_workers.value_or(static_cast<int>(formed)));
  if (most > formed) {
    throw UserError("--virtual-workers",
                    format("%zu (%zu %s can hold the model, each is one). Ask for fewer.", most,
                           formed, formed == devices.size() ? "devices" : "nodes"));
  }
  plan.virtual_workers.resize(most);
  return plan;
}

}  // namespace

Plan plan_data_parallel(const PlanRequest& request) {
  check_request(request);
  const bool all_reduce = !traits(composition(request).sync).waves();
  Plan plan = all_reduce ? all_reduced(request) : with_server(request);
  finish(request, plan, objective(request, plan));
  return plan;
}

}  // namespace hetpipe
