// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/store/checkpoint.h"
#include "runtime/sync/checkpoint_parts.h"
#include "runtime/training/job.h"

namespace hetpipe {

// Whether the job's checkpoints hold what a bit-identical continuation needs.
bool writes_exact(const TrainJob& job, const WaveRules& rules);

// What a checkpoint keeps under /exact: every stage's and every shard's state, by the plan's
// places. Nothing where the job's rules do not allow a bit-identical continuation.
std::optional<ExactState> exact_state(const TrainJob& job, const WaveRules& rules,
                                      const CheckpointParts& parts);

// Why the job cannot continue a checkpoint bit for bit, as the rest of a sentence; nothing: it can.
std::optional<std::string> why_not_exact(const Checkpoint& checkpoint, const TrainJob& job);
// The start of such a continuation.
StartingPoint exact_start(std::string file, const Checkpoint& checkpoint);

// The states of a checkpoint that the job continues.
CheckpointParts parts_from(const Checkpoint& checkpoint, const TrainJob& job);

}  // namespace hetpipe
