// SPDX-License-Identifier: Apache-2.0
#include "launch/train/ground.h"

#include <set>

#include "base/index.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "launch/allocation/slurm.h"
#include "launch/launcher/round.h"
#include "launch/train/measured_model.h"
#include "launch/train/probed_cluster.h"
#include "runtime/training/training_data.h"

namespace hetpipe {
namespace {

// By rank. One rank of each kind measures; an emulated kind runs at the pace of another.
using Measurers = std::vector<std::optional<ModelMeasurer>>;

Measurers measurers_of(const Seats& seats) {
  Measurers by_rank(seats.device_of_rank.size());
  std::set<std::string> kinds;
  for (std::size_t r = 0; r < seats.device_of_rank.size(); ++r) {
    if (!seats.device_of_rank[r]) continue;
    const DeviceKind& kind = seats.cluster.kind_of(*seats.device_of_rank[r]);
    const std::string name = kind.emulate ? kind.emulate->of : kind.name;
    if (!kinds.insert(name).second) continue;
    by_rank[r] = {.kind = name,
                  .on_cpu = kind.emulate && name == kEmulatingDevice,
                  .gpu = seats.device_of_rank[r]->index};
  }
  return by_rank;
}

MeasuredModel measure_here(const TrainOptions& options, ModelMeasurer by) {
  const Dataset data = open_training_data(
      {.model = choice_of(options), .data = *options.data, .images = image_rules(options.samples)},
      Split::train, Parts::labels);
  const Model model = make_model_for(choice_of(options), data);
  // A rank may see its own card alone.
  const std::vector<GpuInfo> cards = visible_gpus().gpus;
  by.gpu = cards.empty() ? 0 : cards[at(by.gpu) % cards.size()].index;
  return measure_model(options, model, by);
}

}  // namespace

std::optional<Ground> take_ground(const TrainCall& call, Transport& transport,
                                  const std::vector<RankFacts>& facts) {
  const TrainOptions& options = call.options;
  if (!on_allocation(options)) return std::nullopt;
  const bool first = transport.rank() == Rank{0};
  const std::vector<std::string> hosts = hosts_of(facts);
  const auto allocation_here = [&] {
    if (!first) return Allocation{};
    return options.planning.cluster == "slurm" ? slurm_allocation() : hosts_allocation(hosts);
  };
  const Allocation allocation = round_of(transport, hosts, allocation_here).front();

  Ground ground;
  Cluster cluster;
  if (!options.pool) cluster = probed_cluster(call, transport, hosts, allocation, ground.notes);
  const auto seats_here = [&] {
    if (!first) return Measurers();
    if (options.pool) cluster = cluster_of(allocation, load_cluster(*options.pool), *options.pool);
    const Seats seats = seats_of(cluster, hosts);
    ground.free_nodes = seats.free;
    ground.cluster = seats.cluster;
    ground.notes.insert(ground.notes.end(), seats.notes.begin(), seats.notes.end());
    if (ground.cluster.devices().empty()) {
      throw UserError("--cluster",
                      format("%s has no device for any of its %zu ranks (%s). Request "
                             "GPUs, or list devices of its nodes in --pool FILE.",
                             allocation.of.c_str(), hosts.size(), join(hosts, ", ").c_str()));
    }
    return measurers_of(seats);
  };
  const Measurers measurers = round_of(transport, hosts, seats_here).front();
  if (options.planning.profile) return ground;
  bool any = false;
  const auto profile_here = [&]() -> std::optional<MeasuredModel> {
    const auto& by = measurers.at(at(transport.rank().value));
    if (!by) return std::nullopt;
    return measure_here(options, *by);
  };
  for (std::optional<MeasuredModel>& measured : round_of(transport, hosts, profile_here)) {
    if (!measured) continue;
    ground.notes.push_back(measured->note);
    if (!any) {
      ground.profile = std::move(measured->profile);
      any = true;
      continue;
    }
    for (Measurement& of : measured->profile.measurements) {
      ground.profile.measurements.push_back(std::move(of));
    }
  }
  return ground;
}

}  // namespace hetpipe
