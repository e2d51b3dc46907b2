// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/partition.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/planners/partition_search.h"
#include "partitioner/profile/cut.h"
#include "partitioner/profile/tied.h"

namespace hetpipe {
namespace {

double sum_of(const Partition& partition) {
  double sum = 0;
  for (const PartCost& cost : partition.costs) sum += cost.total();
  return sum;
}

std::vector<DeviceName> named(const PartitionRequest& request, const std::vector<int>& order) {
  std::vector<DeviceName> names;
  for (const int d : order) names.push_back(request.devices[static_cast<std::size_t>(d)]);
  return names;
}

std::string device_list(const std::vector<DeviceName>& devices) {
  std::vector<std::string> names;
  for (const DeviceName& device : devices) names.push_back(to_string(device));
  return join(names, " ");
}

// ", or --optimizer rmsprop (…)" where that keeps less.
std::string smaller_optimizer(const std::string& optimizer) {
  const int kept = optimizer_slots(optimizer), less = optimizer_slots("rmsprop");
  if (kept <= less) return "";
  return format(", or --optimizer rmsprop (it keeps %d number for each parameter, %s keeps %d)",
                less, optimizer.c_str(), kept);
}

[[noreturn]] void nothing_fits(const Cluster& cluster, const PartitionRequest& request,
                               const Partition& least_bad, bool ruled_out) {
  std::string text = format(
      "no partition of the model %s the virtual worker %s with %d minibatch%s in flight and a "
      "minibatch of %d (each stage must fit its device's memory). The closest one:",
      ruled_out ? "fits" : "was found that fits", device_list(request.devices).c_str(),
      request.in_flight, request.in_flight == 1 ? "" : "es", request.minibatch);
  int first = 0;
  for (std::size_t k = 0; k < least_bad.devices.size(); ++k) {
    const DeviceKind& kind = cluster.kind_of(least_bad.devices[k]);
    const MemoryLedger& ledger = least_bad.ledgers[k];
    std::vector<std::string> lines;
    for (const LedgerLine& line : ledger.lines) {
      lines.push_back(line.name + " " + format_bytes(static_cast<double>(line.bytes)));
    }
    text += format("\n  stage %zu on %s (%s), layers %d to %d: needs %s, has %s%s\n    ", k,
                   to_string(least_bad.devices[k]).c_str(), kind.name.c_str(), first,
                   least_bad.ends[k] - 1, format_bytes(static_cast<double>(ledger.total())).c_str(),
                   memory_for_plans(kind).c_str(),
                   ledger.total() > kind.for_plans() ? "  <- too large" : "");
    text += join(lines, ", ");
    first = least_bad.ends[k];
  }
  text +=
      "\nUse a smaller minibatch, fewer minibatches in flight, more or larger devices per virtual "
      "worker" +
      smaller_optimizer(request.optimizer) + ".";
  throw UserError("", text);
}

void check_request(const Profile& profile, const PartitionRequest& request) {
  ensure(!request.devices.empty(), "a virtual worker has devices");
  ensure(request.in_flight > 0 && request.micro_batches > 0 && request.minibatch > 0,
         "counts are positive");
  if (request.minibatch % request.micro_batches != 0) {
    throw UserError("",
                    format("minibatch = %d does not divide into micro_batches = %d (they are equal "
                           "slices of it). Change one.",
                           request.minibatch, request.micro_batches));
  }
  if (profile.layers.size() < request.devices.size()) {
    throw UserError(
        "", format("the model has %zu layers and the virtual worker %s has %zu devices (each "
                   "needs a layer). Form more virtual workers of fewer devices.",
                   profile.layers.size(), device_list(request.devices).c_str(),
                   request.devices.size()));
  }
}

}  // namespace

PipelineShape pipeline_shape(const PartitionRequest& request) {
  return {static_cast<int>(request.devices.size()),
          request.in_flight,
          optimizer_slots(request.optimizer),
          request.server,
          request.clock_distance,
          request.micro_batches,
          request.average,
          request.halves_pushes,
          request.round};
}

namespace {

using CostsOfStages = std::vector<std::shared_ptr<const LayerCosts>>;

CostsOfStages costs_of_stages(const Cluster& cluster, const Profile& profile,
                              const PartitionRequest& request,
                              const std::vector<DeviceName>& order) {
  ModelTables own;
  ModelTables& tables = request.tables ? *request.tables : own;
  CostsOfStages costs;
  for (const DeviceName& device : order) {
    costs.push_back(tables.costs(profile, cluster.kind_of(device),
                                 request.minibatch / request.micro_batches, request.updates));
  }
  return costs;
}

Partition timed(const Cluster& cluster, const Profile& profile, const PartitionRequest& request,
                const CostsOfStages& costs, std::vector<DeviceName> order, std::vector<int> ends) {
  Partition result;
  for (std::size_t k = 0; k < order.size(); ++k) {
    PartCost part;
    for (int l = k == 0 ? 0 : ends[k - 1]; l < ends[k]; ++l) {
      part.forward_seconds +=
          request.micro_batches * costs[k]->forward[static_cast<std::size_t>(l)];
      part.backward_seconds +=
          request.micro_batches * costs[k]->backward[static_cast<std::size_t>(l)];
    }
    result.costs.push_back(part);
  }
  for (const Transfer& transfer : transfers(profile, ends)) {
    const auto from = static_cast<std::size_t>(transfer.from_stage);
    const auto to = static_cast<std::size_t>(transfer.to_stage);
    double bytes = 0;
    for (const int l : transfer.layers) {
      bytes += static_cast<double>(costs[from]->output_bytes[static_cast<std::size_t>(l)]);
    }
    result.costs[to].receive_activations_seconds +=
        request.micro_batches * cluster.link(order[from], order[to]).transfer_seconds(bytes);
    result.costs[from].receive_gradients_seconds +=
        request.micro_batches * cluster.link(order[to], order[from]).transfer_seconds(bytes);
  }
  const TiedTransfers tied = tied_transfers(tied_weights(profile), ends);
  const auto seconds_of = [&](const TiedTransfer& way) {
    return cluster
        .link(order[static_cast<std::size_t>(way.from_stage)],
              order[static_cast<std::size_t>(way.to_stage)])
        .transfer_seconds(static_cast<double>(way.bytes));
  };
  for (const TiedTransfer& way : tied.weights) {
    result.costs[static_cast<std::size_t>(way.to_stage)].receive_activations_seconds +=
        seconds_of(way);
  }
  for (const TiedTransfer& way : tied.gradients) {
    result.costs[static_cast<std::size_t>(way.to_stage)].receive_gradients_seconds +=
        seconds_of(way);
  }
  for (const PartCost& cost : result.costs) {
    result.bottleneck = std::max(result.bottleneck, cost.total());
  }
  result.devices = std::move(order);
  result.ends = std::move(ends);
  return result;
}

}  // namespace

Partition time_partition(const Cluster& cluster, const Profile& profile,
                         const PartitionRequest& request, std::vector<DeviceName> order,
                         std::vector<int> ends) {
  const CostsOfStages costs = costs_of_stages(cluster, profile, request, order);
  return timed(cluster, profile, request, costs, std::move(order), std::move(ends));
}

Partition evaluate_partition(const Cluster& cluster, const Profile& profile,
                             const PartitionRequest& request, std::vector<DeviceName> order,
                             std::vector<int> ends) {
  ModelTables own;
  ModelTables& tables = request.tables ? *request.tables : own;
  PipelineShape shape = pipeline_shape(request);
  shape.stages = static_cast<int>(order.size());
  Partition result = time_partition(cluster, profile, request, std::move(order), std::move(ends));
  for (std::size_t k = 0; k < result.devices.size(); ++k) {
    const StageId stage{static_cast<int>(k)};
    const auto of_kind = tables.of(profile, cluster.kind_of(result.devices[k]),
                                   request.minibatch / request.micro_batches, request.micro_batches,
                                   request.updates);
    StageFootprint footprint = of_kind->footprints.of(result.ends, stage);
    footprint.samples = footprint.samples_ahead = 0;  // a plan's ledger has those
    result.ledgers.push_back(stage_ledger(footprint, shape, stage));
  }
  return result;
}

Partition evaluate_plan(const Cluster& cluster, const Profile& profile, const Plan& plan,
                        VirtualWorkerId vw) {
  PartitionRequest request;
  std::vector<int> ends;
  for (const PlanStage& stage : plan.virtual_workers[static_cast<std::size_t>(vw.value)].stages) {
    if (stage.devices.size() > 1) {
      throw UserError(
          "", format("virtual worker %d has a stage on %zu devices (replicated stages are not "
                     "part of this release). Give each stage one device.",
                     vw.value, stage.devices.size()));
    }
    request.devices.push_back(stage.devices.front());
    ends.push_back(stage.end_layer);
  }
  request.minibatch = plan.minibatch_of(vw);
  request.micro_batches = plan.micro_batches;
  request.in_flight = plan.in_flight;
  request.optimizer = optimizer_of_stages(composition(plan), plan.optimizer);
  request.updates = updates_of(plan);
  request.server = plan.server.has_value();
  request.average = plan.ema > 0 && !request.server;
  request.clock_distance = plan.server ? plan.server->clock_distance : 0;
  request.halves_pushes = plan.server && plan.server->halves_pushes();
  request.round = plan.server ? plan.server->round : 1;
  return evaluate_partition(cluster, profile, request, request.devices, std::move(ends));
}

bool fits(const Cluster& cluster, const Partition& partition) {
  for (std::size_t k = 0; k < partition.devices.size(); ++k) {
    if (partition.ledgers[k].total() > cluster.kind_of(partition.devices[k]).for_plans())
      return false;
  }
  return true;
}

namespace {

// The cut found; among equally good ones of its order that of a small sum.
Partition finished(const Cluster& cluster, const Profile& profile, const PartitionRequest& request,
                   PartitionSearch& search, const PartitionSearch::Found& best) {
  const bool exact = search.exact();
  const double bound = search.bound();
  const auto order = named(request, best.order);
  Partition result = evaluate_partition(cluster, profile, request, order, best.ends);
  const bool as_paper = request.message_weight == 1;
  const double limit = (as_paper ? result.bottleneck : best.value) * (1 + 1e-12);
  if (const auto ends = search.smallest_sum(best.order, limit)) {
    Partition balanced = evaluate_partition(cluster, profile, request, order, *ends);
    if ((balanced.bottleneck <= limit || !as_paper) && fits(cluster, balanced) &&
        sum_of(balanced) < sum_of(result)) {
      result = std::move(balanced);
    }
  }
  ensure(fits(cluster, result), "the search respects the memory");
  result.exact = exact;
  result.bound = exact ? result.bottleneck : std::min(bound, result.bottleneck);
  return result;
}

}  // namespace

Partition partition(const Cluster& cluster, const Profile& profile,
                    const PartitionRequest& request) {
  check_request(profile, request);
  PartitionSearch search(cluster, profile, request);
  const auto best = search.best(Objective::time);
  if (best) return finished(cluster, profile, request, search, *best);
  const bool exact = search.exact();
  const auto least_bad = search.best(Objective::memory);
  if (!least_bad) {
    throw UserError(
        "", format("no partition of the model into %zu stages was found within the search's work. "
                   "Form virtual workers of fewer devices (--virtual-workers), or use --policy "
                   "search.",
                   request.devices.size()));
  }
  nothing_fits(cluster, request,
               evaluate_partition(cluster, profile, request, named(request, least_bad->order),
                                  least_bad->ends),
               exact);
}

std::optional<Partition> try_partition(const Cluster& cluster, const Profile& profile,
                                       const PartitionRequest& request) {
  check_request(profile, request);
  PartitionSearch search(cluster, profile, request, 1);
  const auto best = search.best(Objective::time);
  if (!best) return std::nullopt;
  return finished(cluster, profile, request, search, *best);
}

}  // namespace hetpipe
