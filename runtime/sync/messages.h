// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "base/ids.h"
#include "base/shared_memory.h"
#include "runtime/pipeline/messages.h"
#include "runtime/sync/shard_map.h"

// What keeps virtual workers together: pushes and pulls, sums of gradients, the parts of a
// checkpoint, the agreement on a stop.
namespace hetpipe {

enum class SyncKind : std::int32_t {
  push_piece = first_after<PipelineKind>,
  push_shown,
  push_added,
  pull_shown,
  pull_taken,
  array_shown,
  shard_arrived,
  gate_request,
  gate_grant,
  gate_passed,
  pull_request,
  pulled,
  worker_finished,
  sum_piece,
  checkpoint_coming,
  checkpoint_part,
  checkpoint_confirm,
  checkpoint_confirmed,
  stop_request,
  stop_at,
  stop_known,
  stop_where,
  stop_here,
  stop_go,
  end
};

// Waves. Before each piece of a wave's sum, in fp32 or bf16 as the plan says, on Channel::push
// (PushPieces).
struct PushPiece {
  static constexpr auto kKind = SyncKind::push_piece;
  Wave wave = 0;
  VirtualWorkerId virtual_worker;
  bool operator==(const PushPiece&) const = default;
};
// Between ranks in reach of each other (SharedBlocks) the sum stays where it lies: instead of
// pieces its place, before the running statistics, on Channel::push, and an answer once it has been
// added.
struct PushShown {
  static constexpr auto kKind = SyncKind::push_shown;
  Wave wave = 0;
  VirtualWorkerId virtual_worker;
  std::int32_t array = 0;  // all of the stage's numbers
};
struct PushAdded {
  static constexpr auto kKind = SyncKind::push_added;
  Wave wave = 0;
  ShardId shard;
};
// A rank in reach may read this array of the sender's from now on.
struct ArrayShown {
  static constexpr auto kKind = SyncKind::array_shown;
  std::int32_t number = 0;
  SharedMemory::Name name;
};
// To the first shard, which has the clock: another one has a whole wave.
struct ShardArrived {
  static constexpr auto kKind = SyncKind::shard_arrived;
  Wave wave = 0;
  VirtualWorkerId virtual_worker;
  ShardId shard;
};
struct GateRequest {
  static constexpr auto kKind = SyncKind::gate_request;
  Wave wave = 0;
  VirtualWorkerId virtual_worker;
};
struct GateGrant {
  static constexpr auto kKind = SyncKind::gate_grant;
  Wave wave = 0;
  Label label = 0;
};
// To the other shards, by arrival alone: the push of the wave before is the next to be added.
struct GatePassed {
  static constexpr auto kKind = SyncKind::gate_passed;
  Wave wave = 0;
  Label label = 0;
  VirtualWorkerId virtual_worker;
};
struct PullRequest {
  static constexpr auto kKind = SyncKind::pull_request;
  Wave gate = 0;  // the next one after this pull
  Label label = 0;
  VirtualWorkerId virtual_worker;
  StageId stage;
  ShardMap::What what = ShardMap::What::parameters;
  bool average = false;  // of the weights, instead of these
};
// The answer: before the values, on Channel::pull.
struct Pulled {
  static constexpr auto kKind = SyncKind::pulled;
  Label label = 0;
  ShardId shard;
  ShardMap::What what = ShardMap::What::parameters;
  bool average = false;
  bool operator==(const Pulled&) const = default;
};
// The answer to a rank in reach, of parameters: where they lie; and that it has copied them.
struct PullShown {
  static constexpr auto kKind = SyncKind::pull_shown;
  Label label = 0;
  std::int64_t offset = 0;  // floats: where the stage's part begins in the shard's array
  ShardId shard;
  std::int32_t array = 0;
};
struct PullTaken {
  static constexpr auto kKind = SyncKind::pull_taken;
  Label label = 0;
};
// To every shard: this stage will ask nothing more.
struct WorkerFinished {
  static constexpr auto kKind = SyncKind::worker_finished;
  VirtualWorkerId virtual_worker;
  StageId stage;
};

// Sums over groups of ranks (GradientExchange). Before a piece, on Channel::reduce.
enum class Along : std::int32_t { up, down };  // the group: the terms so far, or the finished sum
struct SumPiece {
  static constexpr auto kKind = SyncKind::sum_piece;
  std::int64_t sum = 0;  // its number
  std::int64_t piece = 0;
  std::int32_t part = 0;
  Along along = Along::up;
  bool operator==(const SumPiece&) const = default;
};

// Checkpoints, from stages and shards to the collector (CheckpointCollector).
struct CheckpointComing {
  static constexpr auto kKind = SyncKind::checkpoint_coming;
  Label label = 0;
  std::int64_t bytes = 0;  // of the CheckpointPart that follows
  std::int32_t part = 0;
};
// Before the part, on Channel::checkpoint.
struct CheckpointPart {
  static constexpr auto kKind = SyncKind::checkpoint_part;
  Label label = 0;
  std::int32_t part = 0;
  bool operator==(const CheckpointPart&) const = default;
};
// The collector asks all whether they are still there, and each answers.
struct CheckpointConfirm {
  static constexpr auto kKind = SyncKind::checkpoint_confirm;
  Label label = 0;
};
struct CheckpointConfirmed {
  static constexpr auto kKind = SyncKind::checkpoint_confirmed;
  Label label = 0;
};

// Stops. From any rank to the coordinator, which tells all where, and hears that each knows.
struct StopRequest {
  static constexpr auto kKind = SyncKind::stop_request;
  std::int32_t signal = 0;
};
struct StopAt {
  static constexpr auto kKind = SyncKind::stop_at;
  Minibatch before = 0;  // that of every virtual worker: the first of a wave, or inside of one
  Rank by;               // whose request, and the signal that it got
  std::int32_t signal = 0;
};
struct StopKnown {
  static constexpr auto kKind = SyncKind::stop_known;
};
// Inside of a wave: to the ranks of first stages, which answer with the minibatch whose forward
// pass they have not begun, and do not begin it until they may go on.
struct StopWhere {
  static constexpr auto kKind = SyncKind::stop_where;
};
struct StopHere {
  static constexpr auto kKind = SyncKind::stop_here;
  Minibatch next = 0;
};
struct StopGo {
  static constexpr auto kKind = SyncKind::stop_go;
};

static_assert(
    kinds_differ<PushPiece, PushShown, PushAdded, PullShown, PullTaken, ArrayShown, ShardArrived,
                 GateRequest, GateGrant, PullRequest, Pulled, WorkerFinished, SumPiece,
                 CheckpointComing, CheckpointPart, CheckpointConfirm, CheckpointConfirmed,
                 StopRequest, StopAt, StopKnown, StopWhere, StopHere, StopGo>());

}  // namespace hetpipe
