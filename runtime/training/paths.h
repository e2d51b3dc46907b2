// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernels/peer_memory.h"
#include "runtime/pipeline/rank_service.h"
#include "runtime/training/rank_facts.h"
#include "runtime/training/run.h"
#include "runtime/training/values.h"
#include "runtime/transport/device_paths.h"
#include "runtime/transport/path_choice.h"

namespace hetpipe {

// What the ranks say of themselves, for choose_path; by rank.
std::vector<PathEnd> path_ends(const std::vector<RankFacts>& facts,
                               const std::vector<RankDevice>& devices);

// Between which ranks messages go from device to device, the lower rank first: stages of one
// virtual worker between which a tensor travels, and neighbours in a sum of gradients.
std::set<std::pair<Rank, Rank>> path_pairs(const TrainValues& values, const Roles& roles);

// What is worth a try between two of them.
PathChoice candidate(const TrainJob& job, const RankSetting& setting, Rank a, Rank b);

// The pairs whose devices both have memory of their own: of these there is a choice to report.
std::set<std::pair<Rank, Rank>> reported_pairs(const TrainValues& values,
                                               const RankSetting& setting);

// Ranks between which NCCL is worth a try.
std::set<Rank> ranks_of_nccl(const TrainValues& values, const RankSetting& setting);

// Rank 0: hears what became of every pair, and says it once, as a table.
class PathTable {
 public:
  PathTable(std::set<std::pair<Rank, Rank>> pairs, const RankSetting& setting,
            RankService& service);

 private:
  void say() const;

  const RankSetting& setting_;
  std::set<std::pair<Rank, Rank>> awaited_;
  std::vector<std::pair<Rank, PathResult>> heard_;
};

// Words about direct paths, which may come before the rank has made its own.
using PathWords = std::deque<std::pair<Rank, PathWord>>;
std::shared_ptr<PathWords> collect_path_words(RankService& service);

// The direct paths of a worker's rank, from their trial to their end.
class RankPaths {
 public:
  // Device and stream outlive this.
  // `gpu`: the device's, as CUDA counts the visible ones. `nccl_blocks`: of NcclModule::connect.
  RankPaths(Device& device, Stream& stream, int gpu, int nccl_blocks, RankService& service,
            std::shared_ptr<PathWords> words);

  // Waits until all have been tried by both ends; the lower one reports to rank 0.
  void open(const TrainValues& values, const RankSetting& setting);
  // Hands over what has come for them.
  void take_words();
  // When nothing is under way any more: waits until the peers have let go of this rank's memory.
  void close();
  DevicePaths& paths() { return paths_; }

 private:
  std::unique_ptr<DevicePath> make(PathKind kind, Rank peer);

  Device& device_;
  Stream& stream_;
  int gpu_;
  int nccl_blocks_;
  RankService& service_;
  std::shared_ptr<PathWords> words_;
  std::unique_ptr<PeerMemory> peer_memory_;
  DevicePaths paths_;
};

}  // namespace hetpipe
