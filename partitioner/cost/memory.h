// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/ids.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/profile/profile.h"
#include "partitioner/schedule/counts.h"

// The memory that a stage needs on its device, item by item: for every system, from what its
// schedule holds (schedule/counts.h) and which versions of the weights it keeps.
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

// What the ledger counts, in bytes; everything but the parameters per micro-batch or, where one
// action computes a whole minibatch (continuous_1f1b), per minibatch. Of each GPU where a device is
// a group of GPUs: profiles give parameters and stashes per GPU, outputs whole.
struct StageFootprint {
  std::int64_t parameters = 0;          // tied weights once
  std::int64_t stash = 0;               // kept from forward to backward
  std::int64_t received = 0;            // activations from earlier stages
  std::int64_t sent = 0;                // activations to later stages; once per receiving stage
  std::int64_t working = 0;             // working_bytes() of one layer, the most
  std::int64_t samples = 0;             // what its layers read of the samples themselves
  std::int64_t largest_parameters = 0;  // of one layer
  std::int64_t received_once = 0;       // of what is received, for one micro-batch
  std::int64_t stash_once = 0;          // of the stash, for one micro-batch
  std::int64_t waiting = 0;      // gradients of one micro-batch that its W reads, but what later
                                 // stages sent
  std::int64_t freed_early = 0;  // of stash_once, by B: what layers without parameters stashed
                                 // beside their outputs
  std::int64_t late_adding = 0;  // of the parameters of a layer, beyond what W of the layers behind
                                 // it has freed of the micro-batch by then; the most
};

// [l]: gradients of one micro-batch that the backward of layer l works on, of all layers of a
// model: that of its output and, at most as much again, those that wait beside it for a layer
// before it (skips and branches). What layers do in place, and what their kernels want, nearly
// cancels.
std::vector<std::int64_t> working_bytes(const Profile& profile,
                                        std::span<const std::int64_t> output_bytes);

// Stage `stage` of the cut `stage_end` (one past the last layer, per stage). `costs` are those of
// its device at the micro-batch size.
StageFootprint stage_footprint(const Profile& profile, const LayerCosts& costs,
                               std::span<const int> stage_end, StageId stage, int micro_batches);

// A stage on a device; several of one device: its chunks.
enum class Keep { activations, inputs };  // inputs: everything else is recomputed in the backward
struct ChunkMemory {
  StageFootprint footprint;
  Keep keep = Keep::activations;
};

// How this runtime sums gradients (runtime/sync/gradient_exchange.h): up and down a chain of
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
  // predicted, bellwether: the passes of this stage that look ahead at all.
  bool forward_ahead = true;
  bool backward_ahead = true;
};

// The ledger of device `device` of the pipeline whose devices hold `counts`. With P the parameter
// bytes of all its chunks, n the minibatches held there, D the clock distance:
//
//   weights            P
//   gradients          P
//   optimizer          slots * P
//   stashed versions   (n - 1) P    stash, vertical_sync: the version F(p) used waits for B(p); the
//                                   newest minibatch's is the weights themselves
//   deferred updates   (Nm - n) P   stash and one_version in waves: every stage shows F(p) exactly
//                                   the updates 0 ... p - Nm, so one that computes its own earlier
//                                   holds them back; vertical_sync likewise
//   second version     P            two_versions
//   summed update      P            two_versions: while it becomes the newer version, between two
//                                   passes: less one micro-batch's stash and the workspace
//   predicted weights  P            predicted: of the micro-batch that is computed, where its pass
//                                   looks ahead
//                      P each       bellwether: for every pass that has begun and looks ahead
//                                   (where fewer are there while gradients are added, what is to
//                                   be added takes their place)
//   older version      P            recomputed, mixed: where an update comes between the forwards
//                                   of one minibatch
//                                   (both: less P where only forwards need it and no gradient is
//                                   there meanwhile: the line of the gradients counts it)
//   wave updates       (2 + D) P    with a server: the sum that is made, and the D + 1 own waves
//                                   that no pulled label holds yet
//                      + P          where Nm - n >= 2: the snapshot arrives while the wave behind
//                      its
//                                   gate makes updates; elsewhere it takes an older version's place
//   all-reduce         4 pieces     of all_reduce_piece (P where that is less) that came to be
//                                   added; the sum is made in place
//   activations        held * stash; where they are recomputed held * samples (what came from other
//                      stages is below), and the stash of the micro-batches whose B has begun;
//                      where W is apart, less freed_early of those but one
//   messages           (held + 1) * received + 2 * sent, and the gradient of one micro-batch on its
//                      way back; where one B takes the gradients of several micro-batches, sent
//                      for all of them, and once more while it unpacks them, beyond the workspace
//                      and that gradient, which are not there yet; where W is apart, what later
//                      stages sent for the backwards but one whose W is to come
//   waiting gradients  of all backwards whose W is to come, where it is apart
//   workspace          working; where gradients of several micro-batches are added, the largest
//                      layer's parameters as well, for the gradient to be added (gpipe, nf1b and
//                      continuous_1f1b: less one micro-batch's stash, which the first backward has
//                      freed). Where W is apart late_adding: what B works on is among what waits
//
// `held` is micro-batches of each chunk, at the moment when they need most. Lines of 0 bytes are
// left out.
MemoryLedger device_ledger(const MemoryRule& rule, std::span<const HeldCounts> counts, int device,
                           std::span<const ChunkMemory> chunks);

// How the virtual worker around a stage runs, HetPipe's way: continuous 1F1B and stashed weights.
struct PipelineShape {
  int stages = 1;
  int in_flight = 1;  // Nm
  int optimizer_slots = 1;
  bool server = false;  // pushes to a parameter server
  int clock_distance = 0;
  int micro_batches = 1;  // of a minibatch
};
MemoryLedger stage_ledger(const StageFootprint& footprint, const PipelineShape& shape,
                          StageId stage);

// The usual query: the ledger of the device of a stage of a plan, with all chunks that it has.
// Of the replica asked for, at its share of the samples, or of the one that needs most. A plan with
// another `runtime` is answered with what that one holds (megatron_ledger.h). `table` keeps counts
// between calls.
MemoryLedger stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage, std::optional<int> replica,
                          HeldTable& table);
MemoryLedger stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage,
                          std::optional<int> replica = std::nullopt);

// Of a stage's replicas, each with its share of the samples and on its own device, the one that
// fills its memory most: it decides whether the stage fits.
struct StageNeed {
  int replica = 0;
  DeviceName device;
  MemoryLedger ledger;
  std::int64_t memory = 0;     // bytes that the device has
  std::int64_t for_plans = 0;  // that plans may take of it
  std::int64_t missing() const { return ledger.total() - for_plans; }
  double full() const { return static_cast<double>(ledger.total()) / static_cast<double>(memory); }
};
StageNeed fullest_replica(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage);

// The ledger's input under this runtime.
MemoryRule memory_rule(const Plan& plan, VirtualWorkerId vw, StageId stage);

}  // namespace hetpipe
