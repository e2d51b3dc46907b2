// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/megatron_ledger.h"

#include <algorithm>
#include <vector>

#include "partitioner/profile/roofline.h"

namespace hetpipe {

Precision megatron_precision(const Plan& plan, const Profile& profile, const DeviceKind& kind) {
  auto precision = plan.precision.of(kind.name);
  const auto measured = measurements_for(profile, kind);
  if (!precision && !measured.empty()) precision = measured.front()->precision;
  return precision.value_or(Precision::fp32);
}

MemoryLedger megatron_stage_ledger(const StageFootprint& micro_batch, std::int64_t largest_stash,
                                   int stages, StageId stage, int micro_batches,
                                   std::int64_t process_bytes, const MegatronTraining& training) {
  const std::int64_t held = std::min(stages - stage.value, micro_batches);
  const std::int64_t p = micro_batch.parameters;
  MemoryLedger ledger;
  const auto add = [&](const char* name, std::int64_t bytes) {
    if (bytes > 0) ledger.lines.push_back({name, bytes});
  };
  const bool narrow = two_bytes(training.precision);
  const bool narrow_sums = training.precision == Precision::fp16;
  add("weights", narrow ? p / 2 : p);
  add("gradients", narrow_sums ? p / 2 : narrow ? p / 2 + p : p);
  add("optimizer", narrow ? 3 * p : 2 * p);
  add("flat gradients", std::min(p, kMegatronBucketBytes) / (narrow_sums ? 2 : 1));
  add("activations", training.recompute ? micro_batch.stash : held * micro_batch.stash);
  add("messages", (held + 1) * micro_batch.received + micro_batch.sent);
  add("workspace", largest_stash);
  add("process", process_bytes);
  return ledger;
}

MemoryLedger megatron_stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                                   VirtualWorkerId vw, StageId stage, std::int64_t process_bytes) {
  const auto& stages = plan.virtual_workers[static_cast<std::size_t>(vw.value)].stages;
  std::vector<int> ends;
  for (const PlanStage& s : stages) ends.push_back(s.end_layer);
  const PlanStage& here = stages[static_cast<std::size_t>(stage.value)];
  const DeviceKind& kind = cluster.kind_of(here.devices.front());
  const LayerCosts costs = costs_on(profile, kind, plan.minibatch_of(vw) / plan.micro_batches);
  const std::int64_t largest_stash = *std::max_element(costs.stash_bytes.begin() + here.first_layer,
                                                       costs.stash_bytes.begin() + here.end_layer);
  return megatron_stage_ledger(stage_footprint(profile, costs, ends, stage, 1), largest_stash,
                               static_cast<int>(stages.size()), stage, plan.micro_batches,
                               process_bytes,
                               {megatron_precision(plan, profile, kind), here.recompute});
}

}  // namespace hetpipe
