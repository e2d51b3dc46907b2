// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/memory.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/profile/cut.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {

std::int64_t MemoryLedger::total() const {
  std::int64_t sum = 0;
  for (const LedgerLine& line : lines) sum += line.bytes;
  return sum;
}

int optimizer_slots(const std::string& optimizer) {
  static const std::vector<std::string> kNames{"sgd", "sgd-momentum", "adam"};
  const auto at = std::find(kNames.begin(), kNames.end(), optimizer);
  if (at == kNames.end()) {
    throw UserError("", unknown("optimizer", optimizer, kNames) + ". Name one of these.");
  }
  return static_cast<int>(at - kNames.begin());
}

std::vector<std::int64_t> working_bytes(const Profile& profile,
                                        std::span<const std::int64_t> output_bytes) {
  std::vector<std::size_t> last_reader(profile.layers.size(), 0);
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    for (const int input : profile.layers[l].inputs)
      last_reader[static_cast<std::size_t>(input)] = l;
  }
  std::vector<std::int64_t> beside(profile.layers.size(), 0);
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    for (std::size_t between = l + 1; between < last_reader[l]; ++between) {
      beside[between] += output_bytes[l];
    }
  }
  std::vector<std::int64_t> working;
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    working.push_back(output_bytes[l] + std::min(output_bytes[l], beside[l]));
  }
  return working;
}

StageFootprint stage_footprint(const Profile& profile, const LayerCosts& costs,
                               std::span<const int> stage_end, StageId stage, int micro_batches) {
  const auto end_of = [&](int k) { return k < 0 ? 0 : stage_end[static_cast<std::size_t>(k)]; };
  const std::vector<std::int64_t> working = working_bytes(profile, costs.output_bytes);
  StageFootprint footprint;
  std::set<std::string> owners;  // of parameters counted already
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    const auto at = static_cast<std::size_t>(l);
    const ProfileLayer& layer = profile.layers[at];
    if (owners.insert(layer.shares.empty() ? layer.name : layer.shares).second) {
      footprint.parameters += layer.parameter_bytes;
    }
    footprint.largest_parameters = std::max(footprint.largest_parameters, layer.parameter_bytes);
    footprint.stash_once += costs.stash_bytes[at];
    footprint.working = std::max(footprint.working, working[at]);
  }
  std::vector<bool> read_here(profile.layers.size(), false);
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    for (const int from : profile.layers[static_cast<std::size_t>(l)].inputs) {
      read_here[static_cast<std::size_t>(from)] = true;
    }
  }
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    const auto at = static_cast<std::size_t>(l);
    if (profile.layers[at].kept_for_readers && !read_here[at]) {
      footprint.stash_once -= std::min(costs.output_bytes[at], costs.stash_bytes[at]);
    }
  }
  footprint.stash = footprint.stash_once * micro_batches;
  std::set<int> sent;
  for (const Transfer& transfer : transfers(profile, stage_end)) {
    std::int64_t bytes = 0;
    for (const int l : transfer.layers) bytes += costs.output_bytes[static_cast<std::size_t>(l)];
    if (transfer.to_stage == stage.value) {
      footprint.received += bytes * micro_batches;
      footprint.received_once += bytes;
    }
    if (transfer.from_stage == stage.value) {
      footprint.sent += bytes * micro_batches;
      sent.insert(transfer.layers.begin(), transfer.layers.end());
    }
  }
  std::int64_t freed = 0;
  for (int l = end_of(stage.value) - 1; l >= end_of(stage.value - 1); --l) {
    const auto at = static_cast<std::size_t>(l);
    const std::int64_t parameters = profile.layers[at].parameter_bytes;
    footprint.late_adding = std::max(footprint.late_adding, parameters - freed);
    const bool waits = parameters > 0 && sent.count(l) == 0;
    if (waits) footprint.waiting += costs.output_bytes[at];
    if (parameters == 0) {
      footprint.freed_early +=
          std::max<std::int64_t>(0, costs.stash_bytes[at] - costs.output_bytes[at]);
    }
    freed += costs.stash_bytes[at] + (waits ? costs.output_bytes[at] : 0);
  }
  return footprint;
}

namespace {

// What the chunks hold of activations and messages at one moment.
struct Moment {
  std::int64_t activations = 0;
  std::int64_t messages = 0;
};

Moment fullest_moment(const HeldCounts& held, std::span<const ChunkMemory> chunks) {
  Moment fullest;
  for (const std::vector<int>& counts : held.micro_batches) {
    Moment moment;
    for (std::size_t c = 0; c < chunks.size(); ++c) {
      const StageFootprint& one = chunks[c].footprint;
      const std::int64_t count = c < counts.size() ? counts[c] : 0;
      moment.activations += count * (chunks[c].keep == Keep::inputs ? one.samples : one.stash);
      moment.messages += (count + 1) * one.received + 2 * one.sent;
    }
    if (moment.activations + moment.messages >= fullest.activations + fullest.messages) {
      fullest = moment;
    }
  }
  std::int64_t recomputed = 0;  // of one micro-batch
  std::int64_t returned = 0;    // its gradient, on the way back
  for (const ChunkMemory& chunk : chunks) {
    returned = std::max(returned, chunk.footprint.received_once);
    if (chunk.keep == Keep::inputs) recomputed = std::max(recomputed, chunk.footprint.stash);
  }
  fullest.activations += held.backwards * recomputed;
  fullest.messages += returned;
  return fullest;
}

// Copies of the weights beside the ones that the optimizer changes.
struct Versions {
  std::int64_t stashed = 0;
  std::int64_t late_updates = 0;
  std::int64_t second = 0;
  std::int64_t predicted = 0;
  std::int64_t older = 0;
  std::int64_t snapshot = 0;
};

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

Versions versions_of(const MemoryRule& rule, std::span<const HeldCounts> counts, int device) {
  const HeldCounts& held = counts[static_cast<std::size_t>(device)];
  Versions versions;
  const bool waves = rule.sync == StageSync::waves && !traits(rule.schedule).has_flush;
  const WeightTraits& weights = traits(rule.weights);
  if (weights.stashes) versions.stashed = held.minibatches - 1;
  if (weights.visible == Visible::exactly) {
    versions.late_updates = counts.front().minibatches - held.minibatches;
  } else if (waves && weights.visible_in_waves == Visible::exactly) {
    versions.late_updates = std::max(0, rule.in_flight - held.minibatches);
  }
  if (weights.visible == Visible::one_wave_late) versions.second = 1;
  if (weights.predicts()) versions.predicted = predictions(rule, held, When::any);
  if (weights.forward == WeightsOf::minibatch) {
    versions.older = std::max(held.old_versions - 1, held.old_versions_in_backward);
  }
  if (rule.server && rule.in_flight - held.minibatches >= 2) versions.snapshot = 1;
  return versions;
}

// What a backward works with, but the gradients that wait for a W.
// `spare`: what is there at other moments than that of adding.
std::int64_t workspace_bytes(const MemoryRule& rule, std::span<const ChunkMemory> chunks,
                             std::int64_t spare) {
  std::int64_t working = 0;
  std::int64_t adding = 0;  // the first gradient is not added to another
  std::int64_t late_adding = 0;
  for (const ChunkMemory& chunk : chunks) {
    working = std::max(working, chunk.footprint.working);
    adding = std::max(adding, chunk.footprint.largest_parameters);
    late_adding = std::max(late_adding, chunk.footprint.late_adding);
  }
  if (!rule.adds_gradients) adding = late_adding = 0;
  const ScheduleTraits& schedule = traits(rule.schedule);
  if (schedule.backward == BackwardForm::split) return late_adding;
  // Where one action computes it once more, the stash of all is there at once too.
  const bool all_stashes =
      chunks.front().keep == Keep::activations || schedule.backward == BackwardForm::by_minibatch;
  const bool freed = schedule.backwards_in_a_row && all_stashes;
  if (freed && !traits(rule.weights).update_by_wave && chunks.size() == 1) {
    adding = std::max<std::int64_t>(0, adding - chunks.front().footprint.stash_once);
  }
  return working + std::max<std::int64_t>(0, adding - spare);
}

std::int64_t all_reduce_bytes(std::int64_t parameters, int members) {
  const std::int64_t piece = all_reduce_piece(parameters, members);
  const std::int64_t pieces = (parameters + piece - 1) / piece;
  return std::min<std::int64_t>(kAllReduceSlots, pieces) * std::min(parameters, piece);
}

}  // namespace

std::int64_t all_reduce_piece(std::int64_t bytes, int members) {
  constexpr std::int64_t kPiecesOfMember = 8;
  const std::int64_t wanted = bytes / (kPiecesOfMember * members);
  return std::clamp(wanted / kAllReduceSmallestPiece * kAllReduceSmallestPiece,
                    kAllReduceSmallestPiece, kAllReduceLargestPiece);
}

MemoryLedger device_ledger(const MemoryRule& rule, std::span<const HeldCounts> counts, int device,
                           std::span<const ChunkMemory> chunks) {
  std::int64_t p = 0;
  for (const ChunkMemory& chunk : chunks) p += chunk.footprint.parameters;
  const HeldCounts& held = counts[static_cast<std::size_t>(device)];
  const Versions versions = versions_of(rule, counts, device);
  Moment moment = fullest_moment(held, chunks);
  std::int64_t waiting = 0;
  if (traits(rule.schedule).backward == BackwardForm::split) {
    for (const ChunkMemory& chunk : chunks) {
      waiting = std::max(waiting, held.backwards * chunk.footprint.waiting);
      moment.messages += (held.backwards - 1) * chunk.footprint.sent;
      if (chunk.keep == Keep::inputs) continue;
      moment.activations -= (held.backwards - 1) * chunk.footprint.freed_early;
    }
  }
  std::int64_t spare = 0;
  if (traits(rule.weights).shares_predictions()) {
    spare = (versions.predicted - predictions(rule, held, When::adding)) * p;
  }
  const std::int64_t workspace = workspace_bytes(rule, chunks, spare);
  if (rule.micro_batches_of_backward > 1) {
    const int unfolded =
        traits(rule.schedule).whole_minibatches ? 1 : rule.micro_batches_of_backward;
    std::int64_t gradients = 0;
    std::int64_t returned = 0;
    for (const ChunkMemory& chunk : chunks) {
      gradients += unfolded * chunk.footprint.sent;
      moment.messages += 2 * (unfolded - 1) * chunk.footprint.sent;
      returned += chunk.footprint.received_once;
    }
    moment.messages += std::max<std::int64_t>(0, gradients - workspace - returned);
  }
  std::int64_t summed = 0;
  if (traits(rule.weights).update_by_wave) {
    summed = p - workspace;
    for (const ChunkMemory& chunk : chunks) summed -= chunk.footprint.stash_once;
  }
  MemoryLedger ledger;
  const auto add = [&](const char* name, std::int64_t bytes) {
    if (bytes > 0) ledger.lines.push_back({name, bytes});
  };
  add("weights", p);
  add("gradients", p);
  add("optimizer", rule.optimizer_slots * p);
  add("stashed versions", versions.stashed * p);
  add("deferred updates", versions.late_updates * p);
  add("second version", versions.second * p);
  add("summed update", summed);
  add("predicted weights", versions.predicted * p);
  add("older version", versions.older * p);
  add("wave updates", rule.server ? (2 + rule.clock_distance + versions.snapshot) * p : 0);
  add("all-reduce", rule.all_reduced > 1 ? all_reduce_bytes(p, rule.all_reduced) : 0);
  add("activations", moment.activations);
  add("messages", moment.messages);
  add("waiting gradients", waiting);
  add("workspace", workspace);
  return ledger;
}

MemoryLedger stage_ledger(const StageFootprint& footprint, const PipelineShape& shape,
                          StageId stage) {
  // What count_held counts, without a schedule to count it from.
  const int n = minibatches_held(shape.in_flight, shape.stages, stage);
  HeldCounts held;
  held.micro_batches = {{n}};
  held.together = held.minibatches = n;
  held.backwards = 1;
  MemoryRule rule;
  rule.in_flight = shape.in_flight;
  rule.optimizer_slots = shape.optimizer_slots;
  rule.server = shape.server;
  rule.clock_distance = shape.clock_distance;
  rule.micro_batches_of_backward = shape.micro_batches;
  const ChunkMemory chunk{footprint, Keep::activations};
  return device_ledger(rule, {&held, 1}, 0, {&chunk, 1});
}

}  // namespace hetpipe
