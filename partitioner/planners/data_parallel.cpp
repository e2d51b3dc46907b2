// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/data_parallel.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/planners/replicated.h"

namespace hetpipe {
namespace {

PlanStage whole_model(const PlanRequest& request, std::vector<DeviceName> devices) {
  PlanStage stage;
  stage.end_layer = static_cast<int>(request.profile.layers.size());
  stage.devices = std::move(devices);
  return stage;
}

double seconds_on(const PlanRequest& request, const DeviceName& device, int samples) {
  const LayerCosts costs = costs_on(request.profile, request.cluster.kind_of(device), samples);
  return std::accumulate(costs.forward.begin(), costs.forward.end(), 0.0) +
         std::accumulate(costs.backward.begin(), costs.backward.end(), 0.0);
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

// One virtual worker per device.
Plan workers(const PlanRequest& request, const std::vector<DeviceName>& devices, int minibatch,
             int micro_batches) {
  Plan plan = blank_plan(request);
  plan.minibatch = minibatch;
  plan.micro_batches = micro_batches;
  plan.in_flight = request.in_flight.value_or(1);
  for (const DeviceName& device : devices) {
    plan.virtual_workers.push_back({std::nullopt, {whole_model(request, {device})}});
  }
  plan.server = server_of(request);
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
  for (const ProfileLayer& layer : request.profile.layers) {
    if (layer.shares.empty()) bytes += static_cast<double>(layer.parameter_bytes);
  }
  const SlowestLinks links = slowest_links(request.cluster);
  const auto& devices = plan.virtual_workers[0].stages[0].devices;
  const bool cross = std::any_of(devices.begin(), devices.end(), [&](const DeviceName& d) {
    return d.node != devices.front().node;
  });
  const Link& link = cross ? links.across : links.within;
  return slowest + 2 * (n - 1) / n * bytes / link.bandwidth + 2 * (n - 1) * link.latency;
}

}  // namespace

Plan plan_data_parallel(const PlanRequest& request) {
  check_request(request);
  const bool all_reduce = composition(request).sync == SyncRule::all_reduce;
  if (all_reduce) refuse_virtual_workers(request, "data parallelism with all-reduce");
  const int micro_batches = request.micro_batches.value_or(1);
  const int batch = default_minibatch(request);

  // Those that can hold their part, alone with it; a smaller part needs less.
  std::vector<DeviceName> devices;
  std::string shortage;
  std::vector<std::pair<int, bool>> known;  // kinds that were tried
  for (const DeviceName& device : request.cluster.devices()) {
    const int kind =
        static_cast<int>(&request.cluster.kind_of(device) - request.cluster.kinds.data());
    auto at = std::find_if(known.begin(), known.end(),
                           [&](const auto& tried) { return tried.first == kind; });
    if (at == known.end()) {
      int part =
          all_reduce && request.minibatch ? micro_batches : request.minibatch.value_or(batch);
      if (part % micro_batches != 0) {
        throw UserError("--minibatch",
                        format("%d does not divide into %d micro-batches (they are equal slices of "
                               "it). Change one.",
                               part, micro_batches));
      }
      const Plan alone = all_reduce ? replicas(request, {device}, part, micro_batches)
                                    : workers(request, {device}, part, micro_batches);
      const std::string why = memory_shortage(request, alone);
      if (!why.empty()) shortage = why;
      known.emplace_back(kind, why.empty());
      at = known.end() - 1;
    }
    if (at->second) devices.push_back(device);
  }
  if (devices.empty()) {
    throw UserError("", "no device can hold the whole model (" +
                            (shortage.empty() ? "the cluster has none" : shortage) +
                            "). Use a smaller --minibatch, or a pipeline: --system hetpipe.");
  }
  if (!all_reduce) {
    const auto most = static_cast<std::size_t>(
        request.virtual_workers.value_or(static_cast<int>(devices.size())));
    if (most > devices.size()) {
      throw UserError("--virtual-workers",
                      format("%zu (%zu devices can hold the model, each is one). Ask for fewer.",
                             most, devices.size()));
    }
    devices.resize(most);
    Plan plan = workers(request, devices, request.minibatch.value_or(batch), micro_batches);
    finish(request, plan, objective(request, plan));
    return plan;
  }
  const int count = static_cast<int>(devices.size());
  const int minibatch = request.minibatch.value_or(batch * count);
  if (minibatch % micro_batches != 0) {
    throw UserError("--minibatch",
                    format("%d does not divide into %d micro-batches (they are equal slices of "
                           "it). Change one.",
                           minibatch, micro_batches));
  }
  // A replica needs a sample of each micro-batch: the fastest devices go first.
  if (minibatch / micro_batches < count) {
    std::stable_sort(devices.begin(), devices.end(), [&](const auto& a, const auto& b) {
      return seconds_on(request, a, 1) < seconds_on(request, b, 1);
    });
    devices.resize(static_cast<std::size_t>(minibatch / micro_batches));
  }
  // Those that lack the memory for their share leave, until all fit: the others' shares grow.
  for (;;) {
    Plan plan = replicas(request, devices, minibatch, micro_batches);
    shortage = memory_shortage(request, plan);
    if (shortage.empty()) {
      finish(request, plan, objective(request, plan));
      return plan;
    }
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const DeviceName& device : devices) {
      least = std::min(least, request.cluster.kind_of(device).memory);
    }
    std::erase_if(devices, [&](const DeviceName& device) {
      return request.cluster.kind_of(device).memory == least;
    });
    if (devices.empty()) {
      throw UserError("", "the minibatch does not fit the devices (" + shortage +
                              "). Use a smaller --minibatch or more --micro-batches.");
    }
  }
}

}  // namespace hetpipe
