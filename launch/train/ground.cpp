// SPDX-License-Identifier: Apache-2.0
#include "launch/train/ground.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/text.h"
#include "kernels/devices.h"
#include "launch/allocation/slurm.h"
#include "launch/launcher/round.h"
#include "launch/train/measured_model.h"
#include "launch/train/probed_cluster.h"
#include "runtime/model/zoo.h"
#include "runtime/store/open_dataset.h"

namespace hetpipe {
namespace {

using Json = nlohmann::json;

// One rank of each kind measures; an emulated kind runs at the pace of another.
std::map<int, ModelMeasurer> measurers_of(const Seats& seats) {
  std::map<int, ModelMeasurer> by_rank;
  std::set<std::string> kinds;
  for (std::size_t r = 0; r < seats.device_of_rank.size(); ++r) {
    if (!seats.device_of_rank[r]) continue;
    const DeviceKind& kind = seats.cluster.kind_of(*seats.device_of_rank[r]);
    const std::string name = kind.emulate ? kind.emulate->of : kind.name;
    if (!kinds.insert(name).second) continue;
    by_rank[static_cast<int>(r)] = {.kind = name,
                                    .on_cpu = kind.emulate && name == kEmulatingDevice,
                                    .gpu = seats.device_of_rank[r]->index};
  }
  return by_rank;
}

std::string to_text(const std::map<int, ModelMeasurer>& measurers) {
  Json json = Json::array();
  for (const auto& [rank, by] : measurers) {
    json.push_back({{"rank", rank}, {"gpu", by.gpu}, {"kind", by.kind}, {"on_cpu", by.on_cpu}});
  }
  return json.dump();
}

// What this rank measures; nothing where it is not its turn.
std::string measure_here(const TrainOptions& options, const Json& measurers, Rank self) {
  for (const Json& one : measurers) {
    if (one.at("rank").get<int>() != self.value) continue;
    const Dataset data = open_dataset(*options.data, Split::train, Parts::labels);
    const Model model = make_model(*options.model, Shape(data.sample_shape()), data.classes);
    // A rank may see its own card alone.
    const int cards = static_cast<int>(visible_gpus().gpus.size());
    const MeasuredModel measured =
        measure_model(options, model,
                      {.kind = one.at("kind").get<std::string>(),
                       .on_cpu = one.at("on_cpu").get<bool>(),
                       .gpu = cards > 0 ? one.at("gpu").get<int>() % cards : 0});
    return Json{{"profile", to_toml(measured.profile)}, {"note", measured.note}}.dump();
  }
  return {};
}

}  // namespace

std::optional<Ground> take_ground(const TrainCall& call, Transport& transport,
                                  const std::vector<RankFacts>& facts) {
  const TrainOptions& options = call.options;
  if (!on_allocation(options)) return std::nullopt;
  const bool first = transport.rank() == Rank{0};
  const std::vector<std::string> hosts = hosts_of(facts);
  const auto allocation_here = [&] {
    if (!first) return std::string();
    return to_text(options.planning.cluster == "slurm" ? slurm_allocation()
                                                       : hosts_allocation(hosts));
  };
  const Allocation allocation =
      allocation_from_text(round(transport, hosts, allocation_here).front());

  Ground ground;
  Cluster cluster;
  if (!options.pool) cluster = probed_cluster(call, transport, hosts, allocation, ground.notes);
  const auto seats_here = [&] {
    if (!first) return std::string();
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
    return to_text(measurers_of(seats));
  };
  const Json measurers = Json::parse(round(transport, hosts, seats_here).front());
  if (options.planning.profile) return ground;
  bool any = false;
  const auto profile_here = [&] { return measure_here(options, measurers, transport.rank()); };
  for (const std::string& text : round(transport, hosts, profile_here)) {
    if (text.empty()) continue;
    const Json said = Json::parse(text);
    Profile profile = parse_profile(said.at("profile").get<std::string>(), "a measured profile");
    ground.notes.push_back(said.at("note").get<std::string>());
    if (!any) {
      ground.profile = std::move(profile);
      any = true;
      continue;
    }
    for (Measurement& of : profile.measurements) {
      ground.profile.measurements.push_back(std::move(of));
    }
  }
  return ground;
}

}  // namespace hetpipe
