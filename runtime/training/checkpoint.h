// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/store/checkpoint.h"
#include "runtime/sync/checkpoint_parts.h"
#include "runtime/sync/shard_map.h"
#include "runtime/training/job.h"

namespace hetpipe {

// A label's checkpoint from its parts. `rules` as they were when the run started.
Checkpoint assemble_checkpoint(const TrainJob& job, const Model& model, const ShardMap& map,
                               const WaveRules& rules, const Sampler& sampler,
                               const CheckpointParts& parts);

// What a checkpoint calls the moving average of its weights, among the optimizer's state.
inline constexpr const char* kAverageSlot = "weights_average";

// Flat values of some layers, as a stage or a shard wants them.
struct FlatState {
  std::vector<float> parameters;
  std::vector<float> statistics;
  std::vector<std::vector<float>> slots;  // by slots_of_stages
  std::vector<float> average;             // of the parameters, where the job keeps one
  LabelStep::State state;                 // by slots_of_servers
};
// The values that a run starts from: initial ones from the seed, or those of the checkpoint.
FlatState starting_state(const TrainJob& job, const Model& model, const Checkpoint* checkpoint,
                         const std::vector<int>& layers);

// Of flat values of all layers in order, those of some.
std::vector<float> of_layers(const Model& model, ShardMap::What what,
                             const std::vector<float>& of_all, const std::vector<int>& layers);

// How far the training was that wrote the checkpoint. One of a build that did not count says label
// times Nm, which is what this returns: right as long as Nm had not changed.
Counts counts_of(const Checkpoint& checkpoint);

// Whether a checkpoint can continue as this job: model, data, optimizer. Adds problems naming
// `file`.
void check_resumable(const Checkpoint& checkpoint, const std::string& file, const TrainJob& job,
                     const Model& model, Problems& problems);

}  // namespace hetpipe
