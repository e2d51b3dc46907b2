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
    footprint.stash += costs.stash_bytes[at] * micro_batches;
    footprint.largest_output = std::max(footprint.largest_output, costs.output_bytes[at]);
  }
  std::vector<std::vector<int>> inputs;
  for (const ProfileLayer& layer : profile.layers) inputs.push_back(layer.inputs);
  for (const Transfer& transfer : transfers(inputs, stage_end)) {
    std::int64_t bytes = 0;
    for (const int l : transfer.layers) bytes += costs.output_bytes[static_cast<std::size_t>(l)];
    if (transfer.to_stage == stage.value) footprint.received += bytes * micro_batches;
    if (transfer.from_stage == stage.value) footprint.sent += bytes * micro_batches;
  }
  return footprint;
}

MemoryLedger stage_ledger(const StageFootprint& footprint, const PipelineShape& shape,
                          StageId stage) {
  const int held = minibatches_held(shape.in_flight, shape.stages, stage);
  const std::int64_t p = footprint.parameters;
  MemoryLedger ledger;
  const auto add = [&](const char* name, std::int64_t bytes) {
    if (bytes > 0) ledger.lines.push_back({name, bytes});
  };
  add("weights", p);
  add("gradients", p);
  add("optimizer", shape.optimizer_slots * p);
  add("stashed versions", held * p);
  add("late updates", (shape.in_flight - held) * p);
  add("wave updates", shape.server ? (2 + std::int64_t{shape.clock_distance}) * p : 0);
  add("activations", held * footprint.stash);
  add("messages", (held + 1) * footprint.received + 2 * footprint.sent);
  add("workspace", 3 * footprint.largest_output);
  return ledger;
}

MemoryLedger stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage) {
  const auto& stages = plan.virtual_workers[static_cast<std::size_t>(vw.value)].stages;
  std::vector<int> ends;
  for (const PlanStage& s : stages) ends.push_back(s.end_layer);
  const PlanStage& here = stages[static_cast<std::size_t>(stage.value)];
  const int micro_batch = plan.minibatch_of(vw) / plan.micro_batches;
  const LayerCosts costs = costs_on(profile, cluster.kind_of(here.devices.front()), micro_batch);
  const PipelineShape shape{static_cast<int>(stages.size()), plan.in_flight,
                            optimizer_slots(plan.optimizer), plan.server.has_value(),
                            plan.server ? plan.server->clock_distance : 0};
  return stage_ledger(stage_footprint(profile, costs, ends, stage, plan.micro_batches), shape,
                      stage);
}

}  // namespace hetpipe
