// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/profile/profile.h"

// What a stage needs of its device's memory, line by line.
namespace hetpipe {

struct LedgerLine {
  std::string name;  // "weights", "gradients", ...
  std::int64_t bytes = 0;
  bool operator==(const LedgerLine&) const = default;
};

struct MemoryLedger {
  std::vector<LedgerLine> lines;
  bool operator==(const MemoryLedger&) const = default;
  std::int64_t total() const;
};

// Floats of optimizer state per parameter: sgd 0, sgd-momentum 1, adam 2.
// UserError on any other name.
int optimizer_slots(const std::string& optimizer);

// What stage_ledger counts, in bytes; everything but the parameters per minibatch.
struct StageFootprint {
  std::int64_t parameters = 0;      // tied weights once
  std::int64_t stash = 0;           // kept from forward to backward
  std::int64_t received = 0;        // activations from earlier stages
  std::int64_t sent = 0;            // activations to later stages; once per receiving stage
  std::int64_t largest_output = 0;  // of one layer and one micro-batch
};

// Stage `stage` of the cut `stage_end` (one past the last layer, per stage). `costs` are those of
// its device at the micro-batch size.
StageFootprint stage_footprint(const Profile& profile, const LayerCosts& costs,
                               std::span<const int> stage_end, StageId stage, int micro_batches);

// How the virtual worker around a stage runs.
struct PipelineShape {
  int stages = 1;
  int in_flight = 1;  // Nm
  int optimizer_slots = 1;
  bool server = false;  // pushes to a parameter server
  int clock_distance = 0;
};

// The ledger of the continuous executor with stashed weights. With P the parameter bytes, n =
// minibatches_held and D the clock distance:
//   weights P, gradients P, optimizer slots * P
//   stashed versions  n * P         the version F(p) used waits for B(p)
//   late updates      (Nm - n) * P  every stage shows F(p) exactly the updates 0 ... p - Nm, so a
//   stage that
//                                   computes its updates earlier holds them back
//   wave updates      (2 + D) * P   with a server: the sum to push, own waves that no pulled label
//   holds yet,
//                                   the snapshot
//   activations       n * stash
//   messages          (n + 1) * received + 2 * sent
//   workspace         3 * the largest output
// Lines of 0 bytes are left out. Bytes of each GPU, where a device is a group of GPUs.
MemoryLedger stage_ledger(const StageFootprint& footprint, const PipelineShape& shape,
                          StageId stage);

// The same for a stage of a plan.
MemoryLedger stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage);

}  // namespace hetpipe
