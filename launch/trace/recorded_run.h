// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"
#include "partitioner/simulator/durations.h"
#include "runtime/store/trace.h"

// What the actions of a run took, of the traces of its ranks.
//
// An action that computes counts from when its device was free and what it waited for had come: its
// device's time, and what the host did first. What was waited for counts as Replay
// (partitioner/simulator/replay.h) has it, where it came later than the device was free; what came
// earlier has no row, for nobody knows when it came. Evaluations are left out.
namespace hetpipe {

struct RecordedRun {
  Durations durations;
  double seconds = 0;             // from the first action's start to the last one's end ...
  double evaluation_seconds = 0;  // ... without those of evaluations, of the rank that had most
};

// `traces`: of every rank. UserError where they are not of this plan, or begin inside of a
// pipeline.
RecordedRun recorded_run(const std::vector<Trace>& traces, const Plan& plan,
                         const Profile& profile);

}  // namespace hetpipe
