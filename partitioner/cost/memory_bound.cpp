// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/memory_bound.h"

#include <algorithm>

namespace hetpipe {
namespace {

std::int64_t all_reduce_bytes(std::int64_t parameters, int members) {
  const std::int64_t piece = all_reduce_piece(parameters, members);
  const std::int64_t pieces = (parameters + piece - 1) / piece;
  return std::min<std::int64_t>(kAllReduceSlots, pieces) * std::min(parameters, piece);
}

// Beside a gradient; one more where none is there. At any moment, or while gradients are added.
enum class When { any, adding };
int predictions(const MemoryRule& rule, const HeldCounts& held, When when) {
  int most = 0;
  for (const HeldCounts::Passes& begun : held.passes) {
    if (when == When::adding && !begun.adds) continue;
    int kept =
        (rule.forward_ahead ? begun.forward : 0) + (rule.backward_ahead ? begun.backward : 0);
    if (!traits(rule.weights).shares_predictions()) kept = std::min(kept, 1);
    most = std::max(most, kept - (begun.backward > 0 ? 0 : 1));
  }
  return most;
}

}  // namespace

std::int64_t all_reduce_piece(std::int64_t bytes, int members) {
  constexpr std::int64_t kPiecesOfMember = 8;
  const std::int64_t wanted = bytes / (kPiecesOfMember * members);
  return std::clamp(wanted / kAllReduceSmallestPiece * kAllReduceSmallestPiece,
                    kAllReduceSmallestPiece, kAllReduceLargestPiece);
}

MemoryBound::MemoryBound(const MemoryRule& rule, std::span<const HeldCounts> counts, int device)
    : rule_(rule),
      backward_(traits(rule.schedule).backward),
      whole_minibatches_(traits(rule.schedule).whole_minibatches),
      update_by_wave_(traits(rule.weights).update_by_wave),
      freed_before_adding_(freed_before_adding(counts[static_cast<std::size_t>(device)])),
      ahead_(counts[static_cast<std::size_t>(device)].ahead),
      backwards_(counts[static_cast<std::size_t>(device)].backwards),
      versions_(versions_of(rule, counts, counts[static_cast<std::size_t>(device)])),
      copies_(2 + rule.optimizer_slots + (rule.average ? 1 : 0) + versions_.stashed +
              versions_.deferred_updates + versions_.second + versions_.predicted +
              versions_.older + versions_.wave_updates) {
  for (const std::vector<int>& moment : counts[static_cast<std::size_t>(device)].micro_batches) {
    chunks_ = moment.size();
    moments_.insert(moments_.end(), moment.begin(), moment.end());
  }
}

// The first gradient of a minibatch is not added to another, unless that is its wave's; what it
// read is free by the second.
int MemoryBound::freed_before_adding(const HeldCounts& held) const {
  if (update_by_wave_ && rule_.in_flight > 1) return 0;
  if (whole_minibatches_ || backward_ == BackwardForm::by_minibatch) return 1;
  return held.together - held.together_adding;
}

MemoryBound::Versions MemoryBound::versions_of(const MemoryRule& rule,
                                               std::span<const HeldCounts> counts,
                                               const HeldCounts& held) {
  const WeightTraits& weights = traits(rule.weights);
  const bool waves = rule.sync == StageSync::waves && !traits(rule.schedule).has_flush;
  Versions versions;
  if (weights.stashes) versions.stashed = held.minibatches - 1;
  if (weights.visible == Visible::exactly) {
    versions.deferred_updates = std::max(0, counts.front().minibatches - held.minibatches);
  } else if (waves && weights.visible_in_waves == Visible::exactly) {
    versions.deferred_updates = std::max(0, rule.in_flight - held.minibatches);
  }
  if (weights.visible == Visible::one_wave_late) versions.second = 1;
  if (weights.predicts()) versions.predicted = predictions(rule, held, When::any);
  if (weights.shares_predictions()) {
    versions.spare = versions.predicted - predictions(rule, held, When::adding);
  }
  if (weights.forward == WeightsOf::minibatch) {
    versions.older = std::max(held.old_versions - 1, held.old_versions_in_backward);
  }
  if (rule.server) {
    const int snapshot = rule.in_flight - held.minibatches >= 2 ? 1 : 0;
    // A wave of one minibatch is summed up when its backward is through; later ones of a round grow
    // meanwhile.
    const bool summed_late = rule.in_flight == 1 && rule.round == 1;
    if (summed_late) versions.late_halves = rule.halves_pushes ? 3 : 2;
    if (rule.in_flight == 2 && held.minibatches == 1) versions.late_halves = 2;
    // The snapshot that is on its way, and a sum beside the D that are kept. A sum that is still
    // growing is of floats; where a label is requested ahead, it grows beside that.
    const int growing = rule.halves_pushes && rule.requests_ahead ? 1 : 0;
    const int pushed = 1 - growing + rule.clock_distance;
    versions.wave_updates =
        (summed_late ? 0 : 1) + growing + snapshot + (rule.halves_pushes ? 0 : pushed);
    versions.pushed_halves = rule.halves_pushes ? pushed : 0;
  }
  int most = 1;
  for (const HeldCounts& of : counts) most = std::max(most, of.minibatches);
  // Foreign weights: one more that comes ahead of its minibatch. Sums of parts that a user sends
  // are as large: without a flush those on their way are there beside the next one.
  const int begun = weights.update_by_wave ? std::min(held.minibatches, 2) : held.minibatches;
  const int on_their_way = weights.update_by_wave ? 1 : std::max(1, tied_ahead(most) - 1);
  versions.tied = 1 + (weights.backward == WeightsOf::newest ? 1 : begun) +
                  (traits(rule.schedule).has_flush ? 0 : on_their_way);
  if (!weights.keeps_of_forward()) versions.tied_sent = tied_ahead(most);
  return versions;
}

std::int64_t MemoryBound::tied_bytes(const StageFootprint& footprint) const {
  return footprint.uses + versions_.tied * footprint.foreign +
         versions_.tied_sent * footprint.tied_sent +
         (update_by_wave_ ? 0 : footprint.tied_received);
}

// What of a pass is not there between two of them: what it works with, keeps, takes and sends.
template <std::size_t count>
std::int64_t MemoryBound::pass_bytes(std::span<const ChunkMemory, count> chunks,
                                     const LedgerBytes& lines) {
  std::int64_t bytes = lines.workspace;
  for (const ChunkMemory& chunk : chunks) {
    const StageFootprint& one = chunk.footprint;
    bytes += one.stash + one.received_once + one.sent;
  }
  return bytes;
}

// Where a wave makes one update, a sum of parts comes for it between two passes: before the update
// of several minibatches is summed, which takes as much at least.
template <std::size_t count>
std::int64_t MemoryBound::late_tied_bytes(std::span<const ChunkMemory, count> chunks,
                                          const LedgerBytes& lines) const {
  if (!update_by_wave_ || rule_.in_flight > 1) return 0;
  std::int64_t bytes = -pass_bytes(chunks, lines);
  for (const ChunkMemory& chunk : chunks) bytes += chunk.footprint.tied_received;
  return std::max<std::int64_t>(0, bytes);
}

// Of the moments at which chunks hold most, the one that needs most.
template <std::size_t count>
void MemoryBound::add_fullest_moment(std::span<const ChunkMemory, count> chunks,
                                     LedgerBytes& lines) const {
  const std::size_t moments = moments_.size() / chunks_;
  for (std::size_t m = 0; m < moments; ++m) {
    std::int64_t activations = 0;
    std::int64_t messages = 0;
    std::int64_t received = 0;  // beside what is held, of one chunk at a time
    std::int64_t sent = 0;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const StageFootprint& one = chunks[c].footprint;
      const std::int64_t held = c < chunks_ ? moments_[m * chunks_ + c] : 0;
      activations += held * (chunks[c].keep == Keep::inputs ? one.samples : one.stash);
      messages += held * one.received;
      received = std::max(received, one.received);
      sent = std::max(sent, one.sent);
    }
    messages += received + (2 + ahead_.activations) * sent;
    if (activations + messages >= lines.activations + lines.messages) {
      lines.activations = activations;
      lines.messages = messages;
    }
  }
  std::int64_t recomputed = 0;  // of one micro-batch
  std::int64_t returned = 0;    // its gradient, on the way back
  for (const ChunkMemory& chunk : chunks) {
    returned = std::max(returned, chunk.footprint.received_once);
    if (chunk.keep == Keep::inputs) recomputed = std::max(recomputed, chunk.footprint.stash);
  }
  lines.activations += backwards_ * recomputed;
  lines.messages += (1 + ahead_.gradients * rule_.micro_batches_of_backward) * returned;
}

// What a backward works with, but those gradients that wait for a W.
// `spare`: what is there at other moments than that of adding.
template <std::size_t count>
std::int64_t MemoryBound::workspace_bytes(std::span<const ChunkMemory, count> chunks,
                                          std::int64_t spare) const {
  std::int64_t working = 0;
  std::int64_t adding = 0;  // the first gradient is not added to another
  std::int64_t late_adding = 0;
  std::int64_t late_working = 0;
  std::int64_t waiting = 0;  // of one micro-batch
  for (const ChunkMemory& chunk : chunks) {
    working = std::max({working, chunk.footprint.working, chunk.footprint.gradients});
    adding = std::max(adding, chunk.footprint.adding);
    late_adding = std::max(late_adding, chunk.footprint.late_adding);
    late_working = std::max(late_working, chunk.footprint.late_working);
    waiting = std::max(waiting, chunk.footprint.waiting);
  }
  if (!rule_.adds_gradients) adding = late_adding = 0;
  // Where one action computes it once more, the stash of all is there at once too.
  const bool all_stashes =
      chunks.front().keep == Keep::activations || backward_ == BackwardForm::by_minibatch;
  if (all_stashes && chunks.size() == 1) {
    const std::int64_t freed = freed_before_adding_ * chunks.front().footprint.stash_once;
    adding -= freed;
    late_adding = std::max<std::int64_t>(0, late_adding - freed);
  }
  if (backward_ == BackwardForm::split) {
    return std::max(late_adding, (late_working > 0 ? late_working : working) - waiting);
  }
  return std::max(working, adding - spare);
}

template <std::size_t count>
std::int64_t MemoryBound::updating_bytes(std::span<const ChunkMemory, count> chunks) const {
  std::int64_t bytes = 0;
  for (const ChunkMemory& chunk : chunks) bytes = std::max(bytes, chunk.footprint.updating);
  return bytes;
}

// What of the wave comes between two passes, when what they work with is not there.
template <std::size_t count>
std::int64_t MemoryBound::late_wave_bytes(std::span<const ChunkMemory, count> chunks,
                                          std::int64_t parameters, const LedgerBytes& lines) const {
  return std::max<std::int64_t>(0,
                                versions_.late_halves * parameters / 2 - pass_bytes(chunks, lines));
}

// An update is behind a minibatch's last backward: what that kept is not there any more, behind a
// flush of all minibatches.
template <std::size_t count>
std::int64_t MemoryBound::freed_bytes(std::span<const ChunkMemory, count> chunks,
                                      const LedgerBytes& lines) const {
  if (traits(rule_.schedule).has_flush) return lines.activations;
  std::int64_t least = lines.activations;
  for (const ChunkMemory& chunk : chunks) {
    least = std::min(least, chunk.keep == Keep::inputs ? 0 : chunk.footprint.stash);
  }
  return least;
}

template <std::size_t count>
void MemoryBound::add_moving(std::span<const ChunkMemory, count> chunks, std::int64_t parameters,
                             int all_reduced, LedgerBytes& lines) const {
  add_fullest_moment(chunks, lines);
  if (backward_ == BackwardForm::split) {
    for (const ChunkMemory& chunk : chunks) {
      lines.waiting_gradients =
          std::max(lines.waiting_gradients, backwards_ * chunk.footprint.waiting);
      lines.messages += (backwards_ - 1) * chunk.footprint.sent;
      if (chunk.keep == Keep::inputs) continue;
      lines.activations -= (backwards_ - 1) * chunk.footprint.freed_early;
    }
  }
  lines.workspace = workspace_bytes(chunks, versions_.spare * parameters);
  if (rule_.micro_batches_of_backward > 1) {
    const int unfolded = whole_minibatches_ ? 1 : rule_.micro_batches_of_backward;
    std::int64_t gradients = 0;
    std::int64_t returned = 0;
    for (const ChunkMemory& chunk : chunks) {
      gradients += unfolded * chunk.footprint.sent;
      lines.messages += 2 * (unfolded - 1) * chunk.footprint.sent;
      returned += chunk.footprint.received_once;
    }
    lines.messages += std::max<std::int64_t>(0, gradients - lines.workspace - returned);
  }
  if (update_by_wave_ && rule_.in_flight > 1) {
    std::int64_t summed = parameters - lines.workspace;
    for (const ChunkMemory& chunk : chunks) summed -= chunk.footprint.stash_once;
    lines.summed_update = std::max<std::int64_t>(0, summed);
  }
  if (all_reduced > 1) lines.all_reduce = all_reduce_bytes(parameters, all_reduced);
  for (const ChunkMemory& chunk : chunks) {
    lines.samples_ahead = std::max(lines.samples_ahead, chunk.footprint.samples_ahead);
  }
  lines.workspace = std::max(lines.workspace, updating_bytes(chunks) - freed_bytes(chunks, lines));
  lines.tied_weights += late_tied_bytes(chunks, lines);
  if (versions_.late_halves > 0) lines.wave_updates += late_wave_bytes(chunks, parameters, lines);
}

LedgerBytes MemoryBound::lines(std::span<const ChunkMemory> chunks) const {
  std::int64_t p = 0;
  for (const ChunkMemory& chunk : chunks) p += chunk.footprint.parameters;
  LedgerBytes lines;
  lines.weights = p;
  lines.gradients = p;
  lines.optimizer = rule_.optimizer_slots * p;
  lines.average = rule_.average ? p : 0;
  lines.stashed_versions = versions_.stashed * p;
  lines.deferred_updates = versions_.deferred_updates * p;
  lines.second_version = versions_.second * p;
  lines.predicted_weights = versions_.predicted * p;
  lines.older_version = versions_.older * p;
  lines.wave_updates = versions_.wave_updates * p + versions_.pushed_halves * p / 2;
  for (const ChunkMemory& chunk : chunks) lines.tied_weights += tied_bytes(chunk.footprint);
  add_moving(chunks, p, rule_.all_reduced, lines);
  return lines;
}

std::int64_t MemoryBound::bytes(const ChunkMemory& chunk, int all_reduced) const {
  LedgerBytes lines;
  add_moving(std::span<const ChunkMemory, 1>(&chunk, 1), chunk.footprint.parameters, all_reduced,
             lines);
  const std::int64_t p = chunk.footprint.parameters;
  return copies_ * p + versions_.pushed_halves * p / 2 + tied_bytes(chunk.footprint) +
         lines.tied_weights + lines.wave_updates + lines.summed_update + lines.all_reduce +
         lines.activations + lines.samples_ahead + lines.messages + lines.waiting_gradients +
         lines.workspace;
}

MemoryBound memory_bound(const PipelineShape& shape, StageId stage) {
  // What count_held counts, without a schedule to count it from.
  const auto held_by = [&](int k) {
    return minibatches_held(shape.in_flight, shape.stages, StageId{k});
  };
  std::vector<HeldCounts> counts;  // of the first stage and this one
  for (int k = 0; k <= stage.value; k += std::max(1, stage.value)) {
    const int n = held_by(k);
    HeldCounts& held = counts.emplace_back();
    held.micro_batches = {{n}};
    held.together = held.minibatches = n;
    held.backwards = 1;
    if (k > 0) held.ahead.gradients = held_by(k - 1) - n;
    if (k + 1 < shape.stages) held.ahead.activations = std::max(0, n - held_by(k + 1) - 1);
  }
  MemoryRule rule;
  rule.in_flight = shape.in_flight;
  rule.optimizer_slots = shape.optimizer_slots;
  rule.average = shape.average;
  rule.server = shape.server;
  rule.clock_distance = shape.clock_distance;
  rule.halves_pushes = shape.halves_pushes;
  rule.round = shape.round;
  rule.micro_batches_of_backward = shape.micro_batches;
  return {rule, counts, std::min(stage.value, 1)};
}

}  // namespace hetpipe
