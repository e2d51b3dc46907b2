// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// Plays the lowered schedules of all virtual workers of a plan with the times of the profile: no
// randomness, no clock, the same answer everywhere.
//
// Rules: a stage does its actions in order. A message leaves when its tensor is ready, does not
// block the sender, and arrives after latency + bytes / bandwidth; messages of one directed pair of
// devices go one after the other, and so do those that enter, or leave, one server's node. A wave
// counts when all its stages' parts are in. The gate before the last minibatch of wave w waits for
// wave w - 1 - D of every virtual worker (and asks: one latency there and back); the snapshot,
// asked for ahead, leaves as soon as it is complete, front stages first.
namespace hetpipe {

struct SimulatedStage {
  DeviceName device;
  double busy_seconds = 0;   // computing, within the window
  double busy = 0;           // fractions of the window, which add up to 1
  double communication = 0;  // waiting while the message waited for was on the wire
  double bubble = 0;         // waiting for anything else
  std::int64_t memory = 0;   // bytes, the ledger's total
};

struct Simulation {
  double throughput = 0;         // samples/s of all virtual workers together
  double iteration_seconds = 0;  // for one minibatch of every virtual worker
  int global_batch = 0;          // samples of one minibatch of every virtual worker
  double window_seconds = 0;     // the steady part that was looked at
  std::vector<std::vector<SimulatedStage>> stages;  // [virtual worker][stage]
};

// `minibatches`: of each virtual worker, at least two waves; absent: enough for a steady window.
// UserError for plans of other systems than hetpipe and for replicated stages.
Simulation simulate(const Plan& plan, const Cluster& cluster, const Profile& profile,
                    std::optional<int> minibatches = std::nullopt);

}  // namespace hetpipe
