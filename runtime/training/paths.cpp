// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/paths.h"

#include "base/index.h"
#include "base/text.h"
#include "kernels/devices.h"
#include "partitioner/plan/system.h"
#include "partitioner/profile/cut.h"
#include "runtime/training/groups.h"
#include "runtime/training/messages.h"
#include "runtime/transport/ipc_path.h"
#include "runtime/transport/mpi_path.h"
#include "runtime/transport/nccl_path.h"

namespace hetpipe {
namespace {

// Each way; a pair of processes that start to use a card needs the most of it.
constexpr double kTrialSeconds = 10;

std::pair<Rank, Rank> pair_of(Rank a, Rank b) { return a < b ? std::pair{a, b} : std::pair{b, a}; }

}  // namespace

std::vector<PathEnd> path_ends(const std::vector<RankFacts>& facts,
                               const std::vector<RankDevice>& devices) {
  std::vector<PathEnd> ends;
  for (std::size_t r = 0; r < devices.size(); ++r) {
    ends.push_back({.machine = facts[r].place,
                    .process = facts[r].pid,
                    .device = devices[r].name,
                    .uuid = devices[r].uuid,
                    .host_memory = host_reaches(devices[r].name),
                    .nccl = devices[r].nccl,
                    .why_no_nccl = devices[r].why_no_nccl,
                    .mpi_reaches_gpus = facts[r].mpi_reaches_gpus});
  }
  return ends;
}

std::set<std::pair<Rank, Rank>> path_pairs(const TrainValues& values, const Roles& roles) {
  const Plan& plan = values.job.plan;
  std::set<std::pair<Rank, Rank>> pairs;
  for (std::size_t i = 0; i < plan.virtual_workers.size(); ++i) {
    for (const Transfer& transfer :
         transfers(values.model.producers(), stage_ends(plan.virtual_workers[i]))) {
      for (const Rank from : roles.worker[i][at(transfer.from_stage)]) {
        for (const Rank to : roles.worker[i][at(transfer.to_stage)]) {
          if (from != to) pairs.insert(pair_of(from, to));
        }
      }
    }
  }
  for (const Role& role : roles.of_rank) {
    if (!role.worker) continue;
    const RankSums sums = has_waves(plan) ? stage_replica(values, roles, *role.worker).sums
                                          : group_setup(values, roles, *role.worker, nullptr).sums;
    for (const auto* parts : {&sums.gradients, &sums.statistics}) {
      for (const ExchangePart& part : *parts) {
        for (std::size_t m = 1; m < part.group.size(); ++m) {
          if (part.group[m - 1] != part.group[m]) {
            pairs.insert(pair_of(part.group[m - 1], part.group[m]));
          }
        }
      }
    }
  }
  return pairs;
}

PathChoice candidate(const TrainJob& job, const RankSetting& setting, Rank a, Rank b) {
  const PathChoice choice = choose_path(setting.ends[at(a.value)], setting.ends[at(b.value)],
                                        path_named(job.transport_path));
  if (choice.kind == PathKind::staged || !job.emulates()) return choice;
  const LinkTable links = make_link_table(*job.cluster, setting.roles);
  if (links.link(a, b) || links.link(b, a)) return {PathKind::staged, "their link is emulated"};
  return choice;
}

std::set<Rank> ranks_of_nccl(const TrainValues& values, const RankSetting& setting) {
  std::set<Rank> ranks;
  for (const auto& [a, b] : reported_pairs(values, setting)) {
    if (candidate(values.job, setting, a, b).kind == PathKind::nccl) ranks.insert({a, b});
  }
  return ranks;
}

std::set<std::pair<Rank, Rank>> reported_pairs(const TrainValues& values,
                                               const RankSetting& setting) {
  std::set<std::pair<Rank, Rank>> pairs = path_pairs(values, setting.roles);
  std::erase_if(pairs, [&](const auto& pair) {
    return setting.ends[at(pair.first.value)].host_memory ||
           setting.ends[at(pair.second.value)].host_memory;
  });
  return pairs;
}

PathTable::PathTable(std::set<std::pair<Rank, Rank>> pairs, const RankSetting& setting,
                     RankService& service)
    : setting_(setting), awaited_(std::move(pairs)) {
  service.on<PathFound>([this](Rank from, const PathFound& found) {
    const bool expected = awaited_.erase({from, found.peer}) == 1;
    ensure(expected, "a report of a path between ranks that have none");
    heard_.push_back({from, {found.peer, found.path, found.why}});
    if (awaited_.empty()) say();
  });
}

void PathTable::say() const {
  Table table({"ranks", "path", "devices", "why"});
  for (const auto& [rank, result] : heard_) {
    const auto device = [&](Rank r) { return setting_.devices[at(r.value)].text; };
    table.add({format("%d - %d", rank.value, result.peer.value), to_string(result.kind),
               device(rank) + " - " + device(result.peer), result.why});
  }
  setting_.log.line("messages between devices:\n" + table.text());
}

std::shared_ptr<PathWords> collect_path_words(RankService& service) {
  auto words = std::make_shared<PathWords>();
  service.on<PathWord>(
      [words](Rank from, const PathWord& word) { words->emplace_back(from, word); });
  return words;
}

RankPaths::RankPaths(Device& device, Stream& stream, int gpu, int nccl_blocks, RankService& service,
                     std::shared_ptr<PathWords> words)
    : device_(device),
      stream_(stream),
      gpu_(gpu),
      nccl_blocks_(nccl_blocks),
      service_(service),
      words_(std::move(words)),
      peer_memory_(make_peer_memory(device)),
      paths_(service.transport(), device, stream, kTrialSeconds) {}

std::unique_ptr<DevicePath> RankPaths::make(PathKind kind, Rank peer) {
  if (kind == PathKind::ipc && peer_memory_ != nullptr) {
    return std::make_unique<IpcPath>(service_.transport(), peer, device_, stream_, *peer_memory_,
                                     paths_.words_to(peer));
  }
  if (kind == PathKind::nccl && load_nccl().module != nullptr) {
    return std::make_unique<NcclPath>(service_.transport(), peer, stream_, *load_nccl().module,
                                      NcclPath::On{gpu_, device_.memory(), nccl_blocks_},
                                      paths_.words_to(peer));
  }
  if (kind == PathKind::mpi) {
    return std::make_unique<MpiPath>(service_.transport(), peer, stream_);
  }
  throw SystemError(
      format("this build has no path '%s' for device %s", to_string(kind), device_.kind().c_str()));
}

void RankPaths::open(const TrainValues& values, const RankSetting& setting) {
  const Rank self = service_.transport().rank();
  std::vector<PathResult> results;
  for (const auto& [a, b] : reported_pairs(values, setting)) {
    if (a != self && b != self) continue;
    const Rank peer = a == self ? b : a;
    const PathChoice choice = candidate(values.job, setting, a, b);
    if (choice.kind == PathKind::staged) {
      results.push_back({peer, choice.kind, choice.why});
    } else {
      paths_.begin(peer, choice.kind,
                   [this, kind = choice.kind, peer] { return make(kind, peer); });
    }
  }
  service_.wait_for_others(
      [this] {
        take_words();
        if (paths_.poll()) service_.note_work();
        return paths_.tried();
      },
      [this] { return paths_.waiting_for(); });
  for (const PathResult& result : paths_.results()) results.push_back(result);
  for (const PathResult& result : results) {
    if (result.peer < self) continue;
    service_.send(Rank{0}, PathFound{.peer = result.peer, .path = result.kind, .why = result.why});
  }
}

void RankPaths::take_words() {
  for (; !words_->empty(); words_->pop_front()) {
    const auto& [from, word] = words_->front();
    paths_.take(from, word);
  }
}

void RankPaths::close() {
  paths_.close();
  service_.wait_for_others(
      [this] {
        take_words();
        return paths_.closed();
      },
      [] { return std::string("the peers to release this rank's device memory"); });
}

}  // namespace hetpipe
