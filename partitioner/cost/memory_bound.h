// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "partitioner/cost/footprint.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/counts.h"

// How much memory a device needs for stages that run by some rule: the arithmetic of the ledger
// (memory.h), which is this with names, and what planners ask while they search. A stage of which
// all cuts are known needs it to the byte; one whose footprint is the least that other cuts leave
// it (footprint.h) at least.
namespace hetpipe {

// How the virtual worker around a device runs.
struct MemoryRule {
  ScheduleRule schedule = ScheduleRule::continuous_1f1b;
  WeightRule weights = WeightRule::stash;
  StageSync sync = StageSync::waves;
  int in_flight = 1;  // Nm
  int optimizer_slots = 1;
  bool server = false;  // pushes to a parameter server
  int clock_distance = 0;
  int all_reduced = 1;                // devices that add up their gradients, this one included
  bool adds_gradients = false;        // of several passes, to one for the update
  int micro_batches_of_backward = 1;  // that one B takes
  // Where weights are predicted, the passes of this stage that look ahead at all.
  bool forward_ahead = true;
  bool backward_ahead = true;
  bool average = false;         // of the weights, is kept here
  bool halves_pushes = false;   // PlanServer::halves_pushes
  bool requests_ahead = false;  // a label, a wave before its gate: pull = "bound", D > 0
  int round = 1;                // waves between pushes
};

// A stage on a device; several of one device: its chunks.
enum class Keep { activations, inputs };  // inputs: everything else is recomputed in the backward
struct ChunkMemory {
  StageFootprint footprint;
  Keep keep = Keep::activations;
};

// The lines of a ledger, in its order.
struct LedgerBytes {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;
  std::int64_t average = 0;
  std::int64_t stashed_versions = 0;
  std::int64_t deferred_updates = 0;
  std::int64_t second_version = 0;
  std::int64_t summed_update = 0;
  std::int64_t predicted_weights = 0;
  std::int64_t older_version = 0;
  std::int64_t wave_updates = 0;
  std::int64_t tied_weights = 0;
  std::int64_t all_reduce = 0;
  std::int64_t activations = 0;
  std::int64_t samples_ahead = 0;
  std::int64_t messages = 0;
  std::int64_t waiting_gradients = 0;
  std::int64_t workspace = 0;
};

// How this runtime adds up gradients (runtime/sync/gradient_exchange.h): up and down a chain of
// `members`, in messages of all_reduce_piece(bytes), of which so many may wait to be added, and so
// many more be on their way to a member who is not there yet. Small enough that the chain is soon
// full of pieces, large enough that a message's own cost does not count. Over MPI, three ranks of
// one machine, best of six, 32 MiB took 34 ms in pieces of 64 KiB, 29 ms of 256 KiB, 42 ms of
// 1 MiB.
inline constexpr int kAllReduceSlots = 4;
inline constexpr int kAllReducePosted = 8;
inline constexpr std::int64_t kAllReduceLargestPiece = std::int64_t{256} << 10;
inline constexpr std::int64_t kAllReduceSmallestPiece = std::int64_t{8} << 10;
std::int64_t all_reduce_piece(std::int64_t bytes, int members);  // a multiple of 8 KiB

// Minibatches that the first stage is ahead of the last one: so many copies of a tied weight are on
// their way, where F's version is not kept until B, and so many sums of its gradient, two at least.
constexpr int tied_ahead(int most_minibatches_held) {
  return std::max(1, most_minibatches_held - 1);
}

class MemoryBound {
 public:
  // Of device `device` of the pipeline whose devices hold `counts`.
  MemoryBound(const MemoryRule& rule, std::span<const HeldCounts> counts, int device);

  LedgerBytes lines(std::span<const ChunkMemory> chunks) const;
  // Their total for one chunk, where so many devices add up their gradients.
  std::int64_t bytes(const ChunkMemory& chunk, int all_reduced = 1) const;
  // Halves of a copy of the parameters that come between two passes: what they take beyond a pass's
  // stash, workspace, message that came and message that goes is added.
  std::int64_t late_halves() const { return versions_.late_halves; }
  const MessagesAhead& messages_ahead() const { return ahead_; }

 private:
  // Copies of the weights beside the ones that the optimizer changes.
  struct Versions {
    std::int64_t stashed = 0;
    std::int64_t deferred_updates = 0;
    std::int64_t second = 0;
    std::int64_t predicted = 0;
    std::int64_t spare = 0;  // of those, not there while gradients are added
    std::int64_t older = 0;
    std::int64_t wave_updates = 0;
    std::int64_t pushed_halves = 0;  // of half a copy
    std::int64_t late_halves = 0;    // likewise, of a wave's, which come between two passes
    std::int64_t tied = 0;           // of foreign weights, and of sums of parts on their way
    std::int64_t tied_sent = 0;      // of weights on their way to later stages
  };
  int freed_before_adding(const HeldCounts& held) const;
  static Versions versions_of(const MemoryRule& rule, std::span<const HeldCounts> counts,
                              const HeldCounts& held);

  std::int64_t tied_bytes(const StageFootprint& footprint) const;
  template <std::size_t count>
  static std::int64_t pass_bytes(std::span<const ChunkMemory, count> chunks,
                                 const LedgerBytes& lines);
  template <std::size_t count>
  std::int64_t late_tied_bytes(std::span<const ChunkMemory, count> chunks,
                               const LedgerBytes& lines) const;
  // Everything but whole copies of the parameters: `count` chunks, or std::dynamic_extent.
  template <std::size_t count>
  void add_moving(std::span<const ChunkMemory, count> chunks, std::int64_t parameters,
                  int all_reduced, LedgerBytes& lines) const;
  template <std::size_t count>
  void add_fullest_moment(std::span<const ChunkMemory, count> chunks, LedgerBytes& lines) const;
  template <std::size_t count>
  std::int64_t late_wave_bytes(std::span<const ChunkMemory, count> chunks, std::int64_t parameters,
                               const LedgerBytes& lines) const;
  template <std::size_t count>
  std::int64_t updating_bytes(std::span<const ChunkMemory, count> chunks) const;
  template <std::size_t count>
  std::int64_t freed_bytes(std::span<const ChunkMemory, count> chunks,
                           const LedgerBytes& lines) const;
  template <std::size_t count>
  std::int64_t workspace_bytes(std::span<const ChunkMemory, count> chunks,
                               std::int64_t spare) const;

  MemoryRule rule_;
  BackwardForm backward_;
  bool whole_minibatches_;
  bool update_by_wave_;
  int freed_before_adding_;  // micro-batches, fewer than the most, when gradients are added
  MessagesAhead ahead_;
  std::vector<int> moments_;  // HeldCounts::micro_batches, [moment][chunk]
  std::size_t chunks_ = 1;
  int backwards_;
  Versions versions_;
  std::int64_t copies_;  // of the parameters, all together
};

// How the virtual worker around a stage runs, HetPipe's way: continuous 1F1B and stashed weights.
struct PipelineShape {
  int stages = 1;
  int in_flight = 1;  // Nm
  int optimizer_slots = 1;
  bool server = false;  // pushes to a parameter server
  int clock_distance = 0;
  int micro_batches = 1;  // of a minibatch
  bool average = false;   // of the weights, kept by the stages
  bool halves_pushes = false;
  int round = 1;  // waves between pushes
};
MemoryBound memory_bound(const PipelineShape& shape, StageId stage);

}  // namespace hetpipe
