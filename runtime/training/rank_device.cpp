// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/rank_device.h"

#include <map>

#include "base/index.h"
#include "base/text.h"
#include "partitioner/cluster/card_name.h"
#include "runtime/transport/nccl_module.h"

namespace hetpipe {
namespace {

bool pace_of_cpu(const TrainJob& job, const DeviceName& device) {
  if (!job.cluster) return false;
  const DeviceKind& kind = job.cluster->kind_of(device);
  return kind.emulate && kind.emulate->of == kEmulatingDevice;
}

std::optional<Precision> precision_for(const TrainJob& job, const DeviceName& device) {
  return job.plan.precision.of(job.cluster ? job.cluster->kind_of(device).name : "");
}

RankDevice on_gpu(const TrainJob& job, const DeviceName& of, const GpuPlace& place, bool emulated,
                  const VisibleGpus& seen) {
  const int wanted = emulated ? place.on_host : place.in_node;
  const GpuInfo& gpu = seen.gpus[at(wanted) % seen.gpus.size()];
  RankDevice device;
  device.name = "cuda";
  device.gpu = gpu.index;
  device.uuid = gpu.uuid;
  device.card = gpu.name;
  device.memory = static_cast<std::int64_t>(gpu.memory);
  device.precision = precision_for(job, of).value_or(usual_precision(gpu));
  device.text = gpu.name + ", " + to_string(device.precision);
  device.nccl = load_nccl().module != nullptr;
  device.why_no_nccl = load_nccl().why_not;
  return device;
}

bool is_another_card(const CatalogueEntry& kind, const RankDevice& device) {
  constexpr double kSameMemory = 0.8;  // drivers and libraries take a little of it
  if (const CatalogueEntry* card = find_card(device.card)) return card->name != kind.name;
  return static_cast<double>(device.memory) < kSameMemory * kind.gigabytes * 1e9;
}

}  // namespace

RankDevice decide_device(const TrainJob& job, const Role::Worker& worker, const GpuPlace& place,
                         const VisibleGpus& seen) {
  const bool emulated = job.time || (job.cluster && job.cluster->emulated());
  const bool to_the_cpu = pace_of_cpu(job, worker.device);
  if (job.device == "cuda" || (job.device == "auto" && !to_the_cpu && !seen.gpus.empty())) {
    if (seen.gpus.empty()) throw SystemError("device cuda: " + seen.why_none);
    return on_gpu(job, worker.device, place, emulated, seen);
  }
  RankDevice device;
  device.name = job.device == "auto" ? "cpu" : job.device;
  device.precision = device.name == "offload"
                         ? precision_for(job, worker.device).value_or(Precision::fp32)
                         : Precision::fp32;
  device.text = device.name == "offload" ? "offload, " + to_string(device.precision) : device.name;
  if (job.device == "auto") {
    device.why = to_the_cpu ? "" : seen.why_none;  // emulated at the CPU's pace: as it should be
  }
  return device;
}

std::string left_to_the_cpu(const std::vector<RankDevice>& devices) {
  std::map<std::string, std::vector<std::string>> ranks_of;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!devices[r].why.empty()) ranks_of[devices[r].why].push_back(std::to_string(r));
  }
  std::vector<std::string> lines;
  for (const auto& [why, ranks] : ranks_of) {
    lines.push_back(format("device auto: %s %s on the CPU (%s)",
                           ranks.size() == 1 ? "rank" : "ranks", join(ranks, ", ").c_str(),
                           why.c_str()));
  }
  return join(lines, "\n");
}

std::string cards_of_other_kinds(const TrainJob& job, const Roles& roles,
                                 const std::vector<RankDevice>& devices) {
  if (!job.cluster || job.time) return "";
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> ranks_of;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!roles.of_rank[r].worker || devices[r].card.empty()) continue;
    const DeviceKind& kind = job.cluster->kind_of(roles.of_rank[r].worker->device);
    const CatalogueEntry* meant = kind.emulate ? nullptr : find_in_catalogue(kind.name);
    if (meant == nullptr || !is_another_card(*meant, devices[r])) continue;
    ranks_of[{kind.name, devices[r].card}].push_back(std::to_string(r));
  }
  std::vector<std::string> lines;
  for (const auto& [pair, ranks] : ranks_of) {
    const auto& [kind, card] = pair;
    lines.push_back(format(
        "%s %s %s on a card '%s' for a device of type %s (the plan has that type's times and "
        "memory). Name type %s in the cluster file and plan again, or give the ranks other cards.",
        ranks.size() == 1 ? "rank" : "ranks", join(ranks, ", ").c_str(),
        ranks.size() == 1 ? "computes" : "compute", card.c_str(), kind.c_str(),
        kind_of_card(card).c_str()));
  }
  return join(lines, "\n");
}

std::string not_as_planned(const TrainJob& job, const Roles& roles,
                           const std::vector<RankDevice>& devices) {
  if (job.time || (job.cluster && job.cluster->emulated())) return "";
  std::map<std::pair<Precision, Precision>, std::vector<std::string>> ranks_of;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    if (!roles.of_rank[r].worker) continue;
    const auto planned = precision_for(job, roles.of_rank[r].worker->device);
    if (!planned || *planned == devices[r].precision) continue;
    ranks_of[{devices[r].precision, *planned}].push_back(std::to_string(r));
  }
  std::vector<std::string> lines;
  for (const auto& [pair, ranks] : ranks_of) {
    lines.push_back(
        format("%s %s in %s (a CPU has no other precision); the plan is for %s",
               ranks.size() == 1 ? "rank" : "ranks",
               (join(ranks, ", ") + (ranks.size() == 1 ? " computes" : " compute")).c_str(),
               to_string(pair.first).c_str(), to_string(pair.second).c_str()));
  }
  return join(lines, "\n");
}

RankDevice device_of_rank(const TrainJob& job, const Roles& roles,
                          const std::vector<std::string>& hosts, Rank rank) {
  const std::optional<Role::Worker>& worker = roles.of_rank[at(rank.value)].worker;
  if (!worker) {
    RankDevice none;
    none.text = "-";
    return none;
  }
  GpuPlace place{.in_node = worker->device.index};
  for (int r = 0; r < rank.value; ++r) {
    if (roles.of_rank[at(r)].worker && hosts[at(r)] == hosts[at(rank.value)]) ++place.on_host;
  }
  const bool looks =
      job.device == "cuda" || (job.device == "auto" && !pace_of_cpu(job, worker->device));
  return decide_device(job, *worker, place, looks ? visible_gpus() : VisibleGpus{});
}

}  // namespace hetpipe
