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

StageFootprint stage_footprint(const Profile& profile, const LayerCosts& costs,
                               std::span<const int> stage_end, StageId stage, int micro_batches) {
  const auto end_of = [&](int k) { return k < 0 ? 0 : stage_end[static_cast<std::size_t>(k)]; };
  StageFootprint footprint;
  std::set<std::string> owners;  // of parameters counted already
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    const auto at = static_cast<std::size_t>(l);
    const ProfileLayer& layer = profile.layers[at];
    if (owners.insert(layer.shares.empty() ? layer.name : layer.shares).second) {
      footprint.parameters += layer.parameter_bytes;
    }
    footprint.largest_parameters = std::max(footprint.largest_parameters, layer.parameter_bytes);
    footprint.stash += costs.stash_bytes[at] * micro_batches;
    footprint.largest_output = std::max(footprint.largest_output, costs.output_bytes[at]);
  }
  std::vector<std::vector<int>> inputs;
  for (const ProfileLayer& layer : profile.layers) inputs.push_back(layer.inputs);
  std::vector<bool> read_here(profile.layers.size(), false);
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    for (const int from : inputs[static_cast<std::size_t>(l)]) {
      read_here[static_cast<std::size_t>(from)] = true;
    }
  }
  for (int l = end_of(stage.value - 1); l < end_of(stage.value); ++l) {
    const auto at = static_cast<std::size_t>(l);
    if (profile.layers[at].kept_for_readers && !read_here[at]) {
      footprint.stash -= std::min(costs.output_bytes[at], costs.stash_bytes[at]) * micro_batches;
    }
  }
  for (const Transfer& transfer : transfers(inputs, stage_end)) {
    std::int64_t bytes = 0;
    for (const int l : transfer.layers) bytes += costs.output_bytes[static_cast<std::size_t>(l)];
    if (transfer.to_stage == stage.value) {
      footprint.received += bytes * micro_batches;
      footprint.received_once += bytes;
    }
    if (transfer.from_stage == stage.value) footprint.sent += bytes * micro_batches;
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

Versions versions_of(const MemoryRule& rule, std::span<const HeldCounts> counts, int device) {
  const HeldCounts& held = counts[static_cast<std::size_t>(device)];
  Versions versions;
  const bool waves = rule.sync == StageSync::waves && !has_flush(rule.schedule);
  switch (rule.weights) {
    case WeightRule::stash:
    case WeightRule::one_version:
      if (rule.weights == WeightRule::stash) versions.stashed = held.minibatches - 1;
      if (waves) versions.late_updates = std::max(0, rule.in_flight - held.minibatches);
      break;
    case WeightRule::vertical_sync:
      versions.stashed = held.minibatches - 1;
      versions.late_updates = counts.front().minibatches - held.minibatches;
      break;
    case WeightRule::two_versions:
      versions.second = 1;
      break;
    case WeightRule::newest:
      break;
    case WeightRule::predicted:
      versions.predicted = 1;
      break;
    case WeightRule::bellwether:
      versions.predicted = held.passes;
      break;
    case WeightRule::recomputed:
    case WeightRule::mixed:
      versions.older = held.old_versions;
      break;
  }
  if (rule.server && rule.in_flight - held.minibatches >= 2) versions.snapshot = 1;
  return versions;
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
  std::int64_t largest_output = 0;
  std::int64_t largest_parameters = 0;
  for (const ChunkMemory& chunk : chunks) {
    p += chunk.footprint.parameters;
    largest_parameters = std::max(largest_parameters, chunk.footprint.largest_parameters);
    largest_output = std::max(largest_output, chunk.footprint.largest_output);
  }
  // The first gradient is not added to another. Under GPipe the activations are fewer from then on.
  std::int64_t added = rule.adds_gradients ? largest_parameters : 0;
  if (rule.schedule == ScheduleRule::gpipe && chunks.size() == 1 &&
      chunks.front().keep == Keep::activations) {
    added = std::max<std::int64_t>(0, added - chunks.front().footprint.stash);
  }
  const Versions versions = versions_of(rule, counts, device);
  const Moment moment = fullest_moment(counts[static_cast<std::size_t>(device)], chunks);
  MemoryLedger ledger;
  const auto add = [&](const char* name, std::int64_t bytes) {
    if (bytes > 0) ledger.lines.push_back({name, bytes});
  };
  add("weights", p);
  add("gradients", p);
  add("optimizer", rule.optimizer_slots * p);
  add("stashed versions", versions.stashed * p);
  add("late updates", versions.late_updates * p);
  add("second version", versions.second * p);
  add("predicted weights", versions.predicted * p);
  add("older version", versions.older * p);
  add("wave updates", rule.server ? (2 + rule.clock_distance + versions.snapshot) * p : 0);
  add("all-reduce", rule.all_reduced > 1 ? all_reduce_bytes(p, rule.all_reduced) : 0);
  add("activations", moment.activations);
  add("messages", moment.messages);
  add("workspace", 2 * largest_output + added);
  return ledger;
}

double MemoryFactors::bytes(const StageFootprint& footprint) const {
  const auto times = [](double factor, std::int64_t of) {
    return factor * static_cast<double>(of);
  };
  return times(parameters, footprint.parameters) + times(stash, footprint.stash) +
         times(received, footprint.received) + times(sent, footprint.sent) +
         times(largest_output, footprint.largest_output) + times(samples, footprint.samples) +
         times(largest_parameters, footprint.largest_parameters) +
         times(received_once, footprint.received_once) +
         (all_reduced > 1 ? static_cast<double>(all_reduce_bytes(footprint.parameters, all_reduced))
                          : 0);
}

MemoryFactors memory_factors(const MemoryRule& rule, std::span<const HeldCounts> counts, int device,
                             Keep keep) {
  constexpr std::int64_t kMany = std::int64_t{1} << 40;  // so that rounding up is nothing
  MemoryRule growing = rule;
  growing.all_reduced = 1;
  const auto total = [&](const StageFootprint& footprint) {
    const ChunkMemory chunk{footprint, keep};
    return device_ledger(growing, counts, device, {&chunk, 1}).total();
  };
  MemoryFactors factors;
  const auto of = [&](std::int64_t StageFootprint::*member) {
    StageFootprint footprint;
    footprint.*member = kMany;
    return static_cast<double>(total(footprint)) / static_cast<double>(kMany);
  };
  factors.parameters = of(&StageFootprint::parameters);
  factors.stash = of(&StageFootprint::stash);
  factors.received = of(&StageFootprint::received);
  factors.sent = of(&StageFootprint::sent);
  factors.largest_output = of(&StageFootprint::largest_output);
  factors.samples = of(&StageFootprint::samples);
  factors.largest_parameters = of(&StageFootprint::largest_parameters);
  factors.received_once = of(&StageFootprint::received_once);
  factors.all_reduced = rule.all_reduced;
  return factors;
}

MemoryLedger stage_ledger(const StageFootprint& footprint, const PipelineShape& shape,
                          StageId stage) {
  // What count_held counts, without a schedule to count it from.
  const int n = minibatches_held(shape.in_flight, shape.stages, stage);
  const HeldCounts held{{{n}}, n, n, 1, 0, 1};
  MemoryRule rule;
  rule.in_flight = shape.in_flight;
  rule.optimizer_slots = shape.optimizer_slots;
  rule.server = shape.server;
  rule.clock_distance = shape.clock_distance;
  const ChunkMemory chunk{footprint, Keep::activations};
  return device_ledger(rule, {&held, 1}, 0, {&chunk, 1});
}

}  // namespace hetpipe
