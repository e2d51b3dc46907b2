// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/sync/checkpoint_parts.h"
#include "runtime/sync/shard_map.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/evaluations.h"
#include "runtime/training/job.h"

namespace hetpipe {

// What every role of a rank shares, and what is the same on every rank: values that follow from the
// job.
struct TrainValues {
  explicit TrainValues(const TrainJob& the_job);

  const TrainJob& job;
  Model model;
  Sampler sampler;
  WaveRules rules;          // may be asked to stop earlier
  const WaveRules planned;  // without that: of schedules, which a rank may make after it
  ShardMap map;             // of no shards where the plan has no servers
  CheckpointRule checkpoints;
  PartNumbers parts;
  Evaluations evaluations;
  std::optional<Checkpoint> checkpoint;      // that the run starts from
  std::optional<CheckpointParts> continued;  // bit for bit, if it does

  // The values to start from of a stage or shard with these layers.
  FlatState start_of(const std::vector<int>& layers) const;
  // Those of a stage; a continuation has its own optimizer slots and running statistics.
  FlatState start_of_stage(VirtualWorkerId vw, StageId stage) const;
  const ExactWeights* exact_of_stage(VirtualWorkerId vw, StageId stage) const;  // null: none
  // Of a continuation whose run had one, where the stage keeps it.
  std::optional<LossScale::State> loss_scale_of_stage(VirtualWorkerId vw, StageId stage) const;
  // Snapshots that a shard starts from, and the virtual workers' running statistics there.
  std::vector<ShardSnapshot> snapshots_of(ShardId shard) const;
  std::vector<std::vector<float>> running_on(ShardId shard) const;
};

// One past the last layer of each stage.
std::vector<int> stage_ends(const PlanVirtualWorker& vw);
std::vector<int> layers_between(int first, int end);

}  // namespace hetpipe
