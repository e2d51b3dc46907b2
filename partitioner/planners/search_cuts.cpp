// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "partitioner/planners/likely_cuts.h"
#include "partitioner/planners/limits.h"
#include "partitioner/planners/search_compositions.h"
#include "partitioner/planners/search_key.h"
#include "partitioner/planners/search_space.h"

// How virtual workers are cut, and how fast they are then: each once for all that are alike.
namespace hetpipe {
namespace {

constexpr int kWholeMinibatch = 64;  // samples; larger ones hardly fit in one piece

// Whose cuts serve all others: as few as there are of half of kWholeMinibatch samples.
int usual_slices(int minibatch) {
  if (minibatch <= kWholeMinibatch) return 1;
  int slices = minibatch / (kWholeMinibatch / 2);
  while (minibatch % slices != 0) --slices;
  return slices;
}

}  // namespace

// In large pools there is no time for both.
std::vector<Recut> SearchSpace::recuts(int depth) const {
  const bool alike =
      chooses_in_flight() || depth == usual_slices(minibatch_) || row_.request.micro_batches;
  if (!has_few_devices_ || alike) return {Recut::where_needed};
  return {Recut::where_needed, Recut::for_few_slices};
}

// Remembered by place in the order of worker_key, so that it serves all that are alike.
const std::optional<Partition>& SearchSpace::cut_anew(const std::string& key,
                                                      PartitionRequest request) {
  const auto [known, is_new] = known_.partitions.emplace(key, std::nullopt);
  if (!is_new) return known->second;
  request.likely = likely(request);
  try {
    auto partitioned = try_partition(row_.request.cluster, row_.request.profile, request);
    if (!partitioned) return known->second;
    Partition found = std::move(*partitioned);
    std::vector<DeviceName> places;
    for (const DeviceName& device : found.devices) {
      const auto at = std::find(request.devices.begin(), request.devices.end(), device);
      places.push_back({"", static_cast<int>(at - request.devices.begin())});
    }
    found.devices = std::move(places);
    known->second = std::move(found);
  } catch (const UserError&) {
    // It cannot be cut into so many parts: nothing.
  }
  return known->second;
}

// Of the packing whose micro-batches are most like those of the request.
std::optional<LikelyPartition> SearchSpace::likely(const PartitionRequest& request) const {
  const double samples = static_cast<double>(request.minibatch) / request.micro_batches;
  const auto unlike = [&](const Packing& packing) {
    return packing.empty() ? kInfinity : std::abs(std::log(packing.samples() / samples));
  };
  const auto most_alike =
      std::min_element(packings_.begin(), packings_.end(),
                       [&](const Packing& a, const Packing& b) { return unlike(a) < unlike(b); });
  if (most_alike == packings_.end()) return std::nullopt;
  return most_alike->partition(request.devices);
}

// A cut made for less memory, if it fits with what the request needs.
const Partition* SearchSpace::fitting(const std::optional<Partition>& known,
                                      const PartitionRequest& request) const {
  if (!known) return nullptr;
  std::vector<DeviceName> order;
  for (const DeviceName& place : known->devices) {
    order.push_back(request.devices[static_cast<std::size_t>(place.index)]);
  }
  const Partition same = evaluate_partition(row_.request.cluster, row_.request.profile, request,
                                            std::move(order), known->ends);
  return fits(row_.request.cluster, same) ? &*known : nullptr;
}

// With early backwards a stage holds few micro-batches of a minibatch between their F and their B:
// as if the minibatch were no more.
void SearchSpace::slice(PartitionRequest& request, int micro_batches) {
  request.minibatch = minibatch_;
  request.micro_batches = micro_batches;
  if (chooses_in_flight() || micro_batches == 1) return;
  ScheduleRequest schedule;
  schedule.stages = static_cast<int>(request.devices.size());
  schedule.micro_batches = micro_batches;
  int most = 1;
  for (const HeldCounts& held : known_.tables->held().of(row_.parts.schedule, schedule)) {
    most = std::max(most, held.together);
  }
  if (most >= micro_batches) return;
  request.minibatch = minibatch_ / micro_batches * most;
  request.micro_batches = most;
}

const std::optional<Partition>& SearchSpace::cut(std::vector<DeviceName> devices,
                                                 const Knobs& knobs, Recut recut,
                                                 double message_weight,
                                                 std::vector<DeviceName>* in_order) {
  const std::string worker = worker_key(row_.request.cluster, devices);
  if (in_order != nullptr) *in_order = devices;
  PartitionRequest request;
  request.devices = std::move(devices);
  request.tables = known_.tables;
  slice(request, knobs.micro_batches);
  request.optimizer = optimizer_of_stages(row_.parts, blank_.optimizer);
  request.updates = updates_of(row_.parts, blank_.optimizer);
  request.in_flight = chooses_in_flight() ? knobs.in_flight : 1;
  request.server = has_server();
  request.average = row_.request.ema > 0 && !has_server();
  request.clock_distance = has_server() ? knobs.clock_distance : 0;
  request.work = cut_work_;
  request.likely_cuts = kLikelyCuts;
  request.message_weight = message_weight;
  request.halves_pushes = has_server() && server(knobs, blank_).halves_pushes();
  request.round = has_server() ? server(knobs, blank_).round : 1;
  if (has_few_devices_) request.first_work = cut_work_;
  const auto partition_key = [&](const PartitionRequest& r) {
    return worker + key_of({r.minibatch, r.in_flight, r.micro_batches, r.server, r.clock_distance,
                            r.round, std::bit_cast<std::int64_t>(r.message_weight)});
  };
  const std::string key = partition_key(request) + (recut == Recut::for_few_slices ? "/few" : "");
  if (const auto known = known_.partitions.find(key); known != known_.partitions.end())
    return known->second;
  // Most knobs only need more memory: the best cut for what needs least stays so while it fits.
  // Micro-batches change what parts take of the time, too: in large pools, where cutting for each
  // number of them takes too long, improve() moves the cuts.
  const bool for_few_slices = !has_few_devices_ || recut == Recut::for_few_slices;
  PartitionRequest least = request;
  least.in_flight = 1;
  least.server = false;
  least.clock_distance = 0;
  least.round = 1;
  if (!row_.request.micro_batches && for_few_slices) {
    least.minibatch = minibatch_;
    least.micro_batches = usual_slices(minibatch_);
  }
  const auto& base = cut_anew(partition_key(least), least);
  if (const auto known = known_.partitions.find(key); known != known_.partitions.end())
    return known->second;
  PartitionRequest before = request;
  --before.in_flight;
  const auto one_less = known_.partitions.find(partition_key(before));
  const Partition* same = fitting(base, request);
  if (same == nullptr && one_less != known_.partitions.end())
    same = fitting(one_less->second, request);
  if (same == nullptr && for_few_slices && request.micro_batches < knobs.micro_batches) {
    PartitionRequest smallest = request;
    slice(smallest, depths(kMostInFlight).back());
    same = fitting(cut_anew(partition_key(smallest), smallest), request);
  }
  if (same != nullptr) {
    std::optional<Partition> copy = *same;
    return known_.partitions.emplace(key, std::move(copy)).first->second;
  }
  // Where not even the least fits, more does not either, unless smaller slices need less.
  if (!base && least.minibatch <= request.minibatch &&
      least.micro_batches >= request.micro_batches) {
    return known_.partitions.emplace(key, std::nullopt).first->second;
  }
  return cut_anew(key, request);
}

std::vector<WorkerPace> SearchSpace::paces(const Plan& plan) {
  const Cluster& cluster = row_.request.cluster;
  const std::string shape = key_of({plan.minibatch, plan.micro_batches,
                                    static_cast<int>(updates_of(row_.parts, plan.optimizer)),
                                    std::bit_cast<std::int64_t>(message_weight())});
  std::vector<WorkerPace> paces;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    std::vector<DeviceName> devices;
    std::vector<int> ends;
    std::string key = shape;
    for (const PlanStage& stage : plan.virtual_workers[vw].stages) {
      devices.push_back(stage.devices.front());
      ends.push_back(stage.end_layer);
      key += std::to_string(stage.end_layer) + cluster.kind_of(devices.back()).name + ',';
    }
    const std::vector<DeviceName> in_order = devices;
    key += worker_key(cluster, devices);
    const auto [at, is_new] = known_.paces.emplace(std::move(key), WorkerPace{});
    if (is_new) {
      PartitionRequest request;
      request.minibatch = plan.minibatch_of(VirtualWorkerId{static_cast<int>(vw)});
      request.micro_batches = plan.micro_batches;
      request.updates = updates_of(row_.parts, plan.optimizer);
      request.tables = known_.tables;
      const Partition part = time_partition(cluster, row_.request.profile, request, in_order, ends);
      for (const PartCost& cost : part.costs) {
        const double computing = cost.forward_seconds + cost.backward_seconds;
        at->second.sum += cost.total();
        at->second.activations.push_back(cost.receive_activations_seconds);
        at->second.gradients.push_back(cost.receive_gradients_seconds);
        at->second.stages.push_back(computing + message_weight() * (cost.total() - computing));
        at->second.forwards.push_back(cost.forward_seconds +
                                      message_weight() * cost.receive_activations_seconds);
        at->second.bottleneck = std::max(at->second.bottleneck, at->second.stages.back());
      }
    }
    paces.push_back(at->second);
  }
  return paces;
}

}  // namespace hetpipe
