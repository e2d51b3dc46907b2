// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/megatron_ledger.h"

#include <algorithm>
#include <vector>

namespace hetpipe {

MemoryLedger megatron_stage_ledger(const StageFootprint& micro_batch, std::int64_t largest_stash,
                                   int stages, StageId stage, int micro_batches,
                                   std::int64_t process_bytes) {
  const std::int64_t held = std::min(stages - stage.value, micro_batches);
  const std::int64_t p = micro_batch.parameters;
  MemoryLedger ledger;
  const auto add = [&](const char* name, std::int64_t bytes) {
    if (bytes > 0) ledger.lines.push_back({name, bytes});
  };
  add("weights", p);
  add("gradients", p);
  add("optimizer", 2 * p);
  add("flat gradients", std::min(p, kMegatronBucketBytes));
  add("activations", held * micro_batch.stash);
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
  const LayerCosts costs = costs_on(profile, cluster.kind_of(here.devices.front()),
                                    plan.minibatch_of(vw) / plan.micro_batches);
  const std::int64_t largest_stash = *std::max_element(costs.stash_bytes.begin() + here.first_layer,
                                                       costs.stash_bytes.begin() + here.end_layer);
  return megatron_stage_ledger(stage_footprint(profile, costs, ends, stage, 1), largest_stash,
                               static_cast<int>(stages.size()), stage, plan.micro_batches,
                               process_bytes);
}

}  // namespace hetpipe
