// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "partitioner/cluster/cluster.h"
#include "partitioner/cost/memory_bound.h"
#include "partitioner/cost/model_tables.h"
#include "partitioner/plan/plan.h"
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

// The ledger of device `device` of the pipeline whose devices hold `counts`. With P the parameter
// bytes of all its chunks, n the minibatches held there, D the clock distance:
//
//   weights            P
//   gradients          P
//   optimizer          slots * P    optimizer_slots (partitioner/plan/optimizer_rule.h)
//   average            P            of the weights (--ema), where no parameter server keeps it
//   stashed versions   (n - 1) P    where the version F(p) used waits for B(p); the newest
//                                   minibatch's is the weights themselves
//   deferred updates   (Nm - n) P   where every stage shows F(p) exactly the updates 0 ... p - Nm,
//                                   so that one that computes its own earlier holds them back;
//                                   under all-reduce as many as the first stage holds more
//                                   minibatches
//   second version     P            where updates are visible one wave late
//   summed update      P            where they are made by waves of several minibatches: while it
//                                   becomes the newer version, between two passes: less one
//                                   micro-batch's stash and the workspace
//   predicted weights  P            of the micro-batch that is computed, where its pass looks ahead
//                      P each       where predictions are shared: for every pass that has begun and
//                                   looks ahead (where fewer are there while gradients are added,
//                                   what is to be added takes their place)
//   older version      P            where all forwards of a minibatch use one version and an update
//                                   comes between them
//                                   (both: less P where only forwards need it and no gradient is
//                                   there meanwhile: the line of the gradients counts it)
//   wave updates       (2 + D) P    with a server: the sum that is made, and the D + 1 own waves
//                                   that no pulled label holds yet: P / 2 each where pushes are
//                                   bf16
//                      + P          where Nm - n >= 2: the snapshot arrives while the wave behind
//                                   its gate makes updates; where Nm = 2 and n = 1 between two
//                                   passes, so less their stash, messages and workspace; elsewhere
//                                   it takes an older version's place
//                      - P          where Nm = 1 and every wave is pushed: its sum is made between
//                                   two passes, too, where it adds P (3/2 P where pushes are bf16)
//                                   less the same
//   tied weights       of layers that use another one's: a part of its gradient; where that one is
//   in
//                      an earlier stage, its weights for each minibatch held (2 where B computes
//                      with the newest) and the next one's, and the sum of parts on its way. Where
//                      later stages use a weight: the sum that comes from them; of the owner,
//                      unless the pipeline is flushed, the weights on their way, once per such
//                      stage
//   all-reduce         4 pieces     of all_reduce_piece (P where that is less) that came to be
//                                   added; the sum is made in place
//   activations        held * stash; where they are recomputed held * samples (what came from other
//                      stages is below), and the stash of the micro-batches whose B has begun;
//                      where W is apart, less freed_early of those but one
//   samples ahead      of the next micro-batch, as floats, of which they are at most; none where
//                      the device computes in the host's memory
//   messages           (held + 1) * received + 2 * sent, and the gradient of one micro-batch on its
//                      way back; where one B takes the gradients of several micro-batches, sent
//                      for all of them, and once more while it unpacks them, beyond the workspace
//                      and that gradient, which are not there yet; where W is apart, what later
//                      stages sent for the backwards but one whose W is to come
//   waiting gradients  of all backwards whose W is to come, where it is apart
//   workspace          working, or gradients where these are more; where gradients of several
//                      micro-batches are added, adding where that is more (less the stash of as
//                      many micro-batches as are fewer then). Where W is apart late_adding, less
//                      the same, or what of working does not wait. Or what the update needs beside
//                      the gradient and what its minibatch has freed (behind a flush: all
//                      activations), where that is more
//
// `held` is micro-batches of each chunk, at the moment when they need most. Lines of 0 bytes are
// left out.
MemoryLedger device_ledger(const MemoryRule& rule, std::span<const HeldCounts> counts, int device,
                           std::span<const ChunkMemory> chunks);

MemoryLedger stage_ledger(const StageFootprint& footprint, const PipelineShape& shape,
                          StageId stage);

// The usual query: the ledger of the device of a stage of a plan, with all chunks that it has.
// Of the replica asked for, at its share of the samples, or of the one that needs most. A plan with
// another `runtime` is answered with what that one holds (megatron_ledger.h). `table` keeps counts
// between calls, `tables` (may be null) what they are of.
MemoryLedger stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage, std::optional<int> replica,
                          HeldTable& table, ModelTables* tables = nullptr);
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
// Of each replica, alike ones (of one kind of device, with equal shares) once.
std::vector<StageNeed> replica_needs(const Plan& plan, const Cluster& cluster,
                                     const Profile& profile, VirtualWorkerId vw, StageId stage,
                                     ModelTables* tables = nullptr);
StageNeed fullest_replica(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage);

// What the ledgers are asked with, under this runtime: of all stages of a plan, as if all their
// passes looked ahead where any do and nobody added up gradients; and of one stage.
MemoryRule memory_rule(const Plan& plan);
MemoryRule memory_rule(const Plan& plan, VirtualWorkerId vw, StageId stage);
// Micro-batches that one action computes, each by itself: all of a minibatch where it is one
// action.
int passes_of_action(const Plan& plan, const MemoryRule& rule);

}  // namespace hetpipe
