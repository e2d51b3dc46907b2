// SPDX-License-Identifier: Apache-2.0
#include "launch/train/ground.h"

#include <cstdio>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "base/hash.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/allocation/slurm.h"
#include "launch/cache_folder.h"
#include "launch/failure.h"
#include "launch/host_name.h"
#include "launch/probe/measure.h"
#include "launch/profile_measure.h"
#include "launch/round.h"
#include "launch/version.h"
#include "runtime/model/zoo.h"
#include "runtime/store/open_dataset.h"

namespace hetpipe {
namespace {

using Json = nlohmann::json;

constexpr double kProbeSeconds = 4;     // for kinds and links together, about
constexpr double kProfileSeconds = 20;  // for batches of the model

// The hosts of these ranks, each once, in rank order.
Allocation hosts_allocation(const std::vector<std::string>& hosts) {
  Allocation allocation;
  allocation.of = "the hosts of these ranks";
  std::set<std::string> seen;
  for (const std::string& host : hosts) {
    if (seen.insert(host).second) allocation.nodes.push_back({.name = host});
  }
  return allocation;
}

// --- kinds and links, measured ------------------------------------------------------------------

// Where a probed cluster is kept: a name that follows from what its numbers depend on.
std::filesystem::path kept_cluster(const std::vector<ProbeFacts>& facts) {
  const std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  std::string key = to_hex(build_hash());
  for (const ProbeFacts& of : facts) {
    key += '\n' + of.rank.host + ' ' + of.processor + ' ' + of.driver + ' ' + of.libraries;
    for (const SeenCard& card : of.cards) key += ' ' + card.gpu.uuid;
  }
  return folder / "clusters" / (to_hex(hash_text(key)) + ".toml");
}

// A file that cannot be read is measured anew.
std::optional<Cluster> find_kept(const std::filesystem::path& file) {
  std::error_code error;
  if (file.empty() || !std::filesystem::is_regular_file(file, error)) return std::nullopt;
  try {
    return load_cluster(file);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void keep(const std::filesystem::path& file, const std::string& text) {
  if (file.empty()) return;
  try {
    std::filesystem::create_directories(file.parent_path());
    write_file(file, text);
  } catch (const std::exception&) {
    // Measured again next time.
  }
}

std::string what_failed(const Probed& probed) {
  std::vector<std::string> failures;
  for (std::size_t k = 0; k < probed.devices.size(); ++k) {
    if (!probed.devices[k].failure.empty()) failures.push_back(probed.devices[k].failure);
  }
  for (const LinkResult& link : probed.links) {
    if (link.numbers) continue;
    failures.push_back(
        format("link between %s and %s: %s", name_of_end(probed.pool, link.test.from).c_str(),
               name_of_end(probed.pool, link.test.to).c_str(), link.failure.c_str()));
  }
  return join(failures, "; ");
}

// All ranks together; rank 0 gets the file's text.
std::string probe(const TrainCall& call, Transport& transport, const std::vector<ProbeFacts>& facts,
                  ProbeFor purpose) {
  PoolMeasurement measurement(decide_pool(facts, purpose), transport,
                              {.seconds = kProbeSeconds, .threads = call.options.threads});
  int code = 0;
  std::string text;
  if (transport.rank() == Rank{0}) {
    const Probed probed = measurement.measure();
    if (!probed.complete()) {
      code = static_cast<int>(ExitCode::system);
      std::fprintf(stderr,
                   "these devices could not be measured: %s. hetpipe doctor looks closer.\n",
                   what_failed(probed).c_str());
    }
    text = cluster_file(probed, facts);
    dismiss(transport, code);
  } else {
    code = measurement.take_part();
  }
  if (code != 0) {
    if (measurement.waits_for_lost_messages()) transport.abort(code);
    throw MachineFailed{code};
  }
  return text;
}

// What the scheduler gave of GPUs also says which ranks compute where no GPU can be used.
void only_where_given(const Allocation& allocation, Cluster& cluster) {
  if (!allocation.gpus_known) return;
  std::map<std::string, std::size_t> given;
  std::size_t all = 0;
  for (const AllocatedNode& node : allocation.nodes) {
    given[node.name] = node.gpus.size();
    all += node.gpus.size();
  }
  if (all == 0) return;
  for (Node& node : cluster.nodes) {
    node.kinds.resize(std::min(node.kinds.size(), given[node.name]));
  }
}

Cluster probed_cluster(const TrainCall& call, Transport& transport,
                       const std::vector<std::string>& hosts, const Allocation& allocation,
                       std::vector<std::string>& notes) {
  const bool first = transport.rank() == Rank{0};
  const ProbeFor purpose = call.options.device == "cuda"   ? ProbeFor::cards
                           : call.options.device == "auto" ? ProbeFor::whatever_there_is
                                                           : ProbeFor::processors;
  std::vector<ProbeFacts> facts;
  const auto mine = [&] {
    return to_text(
        probe_facts_here(purpose == ProbeFor::processors ? LookForCards::no : LookForCards::yes));
  };
  for (const std::string& text : round(transport, hosts, mine)) {
    facts.push_back(probe_facts_from_text(text));
  }
  round(transport, hosts, [&] {
    decide_pool(facts, purpose);  // may say that there is no GPU
    return std::string();
  });
  std::optional<Cluster> kept;
  const auto look = [&] {
    if (first) kept = find_kept(kept_cluster(facts));
    return std::string(kept ? "found" : "");
  };
  std::optional<Cluster> cluster;
  if (round(transport, hosts, look).front().empty()) {
    const std::string text = probe(call, transport, facts, purpose);
    if (first) {
      cluster = parse_cluster(text, "the cluster as measured");
      keep(kept_cluster(facts), text);
      notes.push_back("devices and links were measured now");
    }
  } else if (first) {
    cluster = std::move(kept);
    notes.push_back("devices and links were measured before: " + kept_cluster(facts).string());
  }
  if (!first) return {};
  if (!decide_pool(facts, purpose).cards) only_where_given(allocation, *cluster);
  return *cluster;
}

// --- the model, measured ------------------------------------------------------------------------

// One rank of each kind; an emulated kind runs at the pace of another.
struct Measurer {
  int rank = 0;
  int gpu = 0;       // of those that CUDA shows the rank
  std::string kind;  // as the profile calls it
  bool on_cpu = false;
};

std::vector<Measurer> measurers_of(const Cluster& cluster, const std::vector<std::string>& hosts) {
  std::vector<Measurer> all;
  std::set<std::string> kinds;
  std::map<std::string, int> taken;  // devices of a node, by ranks before
  for (std::size_t r = 0; r < hosts.size(); ++r) {
    for (const Node& node : cluster.nodes) {
      if (short_name(node.name) != short_name(hosts[r])) continue;
      const int device = taken[node.name]++;
      if (device >= static_cast<int>(node.kinds.size())) continue;
      const DeviceKind& kind = cluster.kinds[at(node.kinds[at(device)])];
      const std::string name = kind.emulate ? kind.emulate->of : kind.name;
      if (!kinds.insert(name).second) continue;
      const bool on_cpu = kind.emulate && kind.emulate->of == kEmulatingDevice;
      all.push_back({static_cast<int>(r), device, name, on_cpu});
    }
  }
  return all;
}

std::string to_text(const std::vector<Measurer>& measurers) {
  Json json = Json::array();
  for (const Measurer& one : measurers) {
    json.push_back(
        {{"rank", one.rank}, {"gpu", one.gpu}, {"kind", one.kind}, {"on_cpu", one.on_cpu}});
  }
  return json.dump();
}

// What this rank measures; nothing where it is not its turn.
std::string measure_here(const TrainCall& call, const Json& measurers, Rank self) {
  for (const Json& one : measurers) {
    if (one.at("rank").get<int>() != self.value) continue;
    const TrainOptions& options = call.options;
    const Dataset data = open_dataset(*options.data, Split::train, Parts::labels);
    const Model model = make_model(*options.model, Shape(data.sample_shape()), data.classes);
    const bool on_cpu = one.at("on_cpu").get<bool>();
    const std::string kind = one.at("kind").get<std::string>();
    std::optional<Precision> precision;
    if (options.planning.precision) {
      precision = precision_choice_from(*options.planning.precision).of(kind);
    }
    const int cards = static_cast<int>(visible_gpus().gpus.size());
    const ProfiledDevice device =
        open_profiled_device({.device = on_cpu && options.device == "auto" ? "cpu" : options.device,
                              .threads = options.threads,
                              .gpu = cards > 0 ? one.at("gpu").get<int>() % cards : 0,
                              .precision = precision});
    MeasuredProfile measured = measured_profile(
        model, device, {.threads = options.threads, .budget_seconds = kProfileSeconds});
    for (Measurement& of : measured.profile.measurements) of.device = kind;
    return Json{{"profile", to_toml(measured.profile)},
                {"note", format("%s on %s: %s, %s", model.name().c_str(), kind.c_str(),
                                measured.remark.c_str(),
                                measured.found ? "measured before" : "measured now")}}
        .dump();
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
    Seats seats = seats_of(cluster, hosts);
    ground.cluster = std::move(seats.cluster);
    ground.free_nodes = std::move(seats.free);
    ground.notes.insert(ground.notes.end(), seats.notes.begin(), seats.notes.end());
    if (ground.cluster.devices().empty()) {
      throw UserError("--cluster",
                      format("%s has no device for any of its %zu ranks (%s). Ask for "
                             "GPUs, or name devices of its nodes in --pool FILE.",
                             allocation.of.c_str(), hosts.size(), join(hosts, ", ").c_str()));
    }
    return options.planning.profile ? to_text(std::vector<Measurer>())
                                    : to_text(measurers_of(ground.cluster, hosts));
  };
  const Json measurers = Json::parse(round(transport, hosts, seats_here).front());
  if (options.planning.profile) return ground;
  bool any = false;
  const auto profile_here = [&] { return measure_here(call, measurers, transport.rank()); };
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
