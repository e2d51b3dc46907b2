// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/error.h"
#include "partitioner/cost/megatron_ledger.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/staleness.h"
#include "partitioner/plan/system.h"

// The ledger of a plan's stages: from the plan to the rule, the chunks and the counts.
namespace hetpipe {
namespace {

using Stages = std::vector<PlanStage>;

const Stages& stages_of(const Plan& plan, VirtualWorkerId vw) {
  return plan.virtual_workers[static_cast<std::size_t>(vw.value)].stages;
}

// Replicas of the stage and, without a server, whoever has its first layer in the other virtual
// workers.
int all_reduced(const Plan& plan, VirtualWorkerId vw, StageId stage, StageSync sync) {
  const PlanStage& here = stages_of(plan, vw)[static_cast<std::size_t>(stage.value)];
  if (sync == StageSync::waves) return static_cast<int>(here.devices.size());
  std::size_t devices = 0;
  for (const PlanVirtualWorker& worker : plan.virtual_workers) {
    for (const PlanStage& other : worker.stages) {
      const bool holds =
          other.first_layer <= here.first_layer && here.first_layer < other.end_layer;
      if (holds) devices += other.devices.size();
    }
  }
  return static_cast<int>(devices);
}

// `ahead`: they come to the device ahead of their pass, of which there are `passes` in an action.
void add_samples(StageFootprint& footprint, const Profile& profile, const PlanStage& stage,
                 int samples, int passes, bool ahead) {
  double bytes = 0;
  for (int l = stage.first_layer; l < stage.end_layer; ++l) {
    const ProfileLayer& layer = profile.layers[static_cast<std::size_t>(l)];
    if (!layer.inputs.empty()) continue;
    const double of_pass = layer.input_bytes * samples;
    bytes += of_pass * passes;
    if (!ahead) continue;
    footprint.samples_ahead = std::max(footprint.samples_ahead, static_cast<std::int64_t>(of_pass));
  }
  footprint.samples = static_cast<std::int64_t>(bytes);
}

// Samples of a micro-batch that a replica computes; equal shares where none are given, the first
// ones taking what does not divide.
int share_of(const PlanStage& stage, int micro_batch, int replica) {
  if (!stage.shares.empty()) return stage.shares[static_cast<std::size_t>(replica)];
  const int replicas = static_cast<int>(stage.devices.size());
  return std::max(1, micro_batch / replicas + (replica < micro_batch % replicas ? 1 : 0));
}

// A pure function of what it is asked with: remembering answers changes none.
VersionDifference steps_at(const System& system, const ScheduleRequest& request, StageId stage) {
  using Key = std::tuple<ScheduleRule, WeightRule, int, int, int>;
  thread_local std::map<Key, std::vector<VersionDifference>> known;
  const Key key{system.schedule, system.weights, request.stages, request.micro_batches,
                request.in_flight};
  auto at = known.find(key);
  if (at == known.end()) {
    at = known.emplace(key, steps_ahead(system.schedule, system.weights, request)).first;
  }
  return at->second[static_cast<std::size_t>(stage.value % request.stages)];
}

StageFootprint from_tables(const Plan& plan, const MemoryRule& rule, const Profile& profile,
                           const DeviceKind& kind, int samples, std::span<const int> stage_end,
                           StageId stage, ModelTables& tables) {
  const auto of_kind =
      tables.of(profile, kind, samples, passes_of_action(plan, rule), updates_of(plan));
  StageFootprint footprint = of_kind->footprints.of(stage_end, stage);
  if (traits(rule.schedule).backward == BackwardForm::split) {
    const auto at = static_cast<std::size_t>(stage.value);
    of_kind->footprints.add_late(footprint, at == 0 ? 0 : stage_end[at - 1], stage_end[at]);
  }
  return footprint;
}

}  // namespace

int passes_of_action(const Plan& plan, const MemoryRule& rule) {
  return traits(rule.schedule).whole_minibatches ? plan.micro_batches : 1;
}

MemoryRule memory_rule(const Plan& plan) {
  const System system = composition(plan);
  MemoryRule rule;
  rule.schedule = system.schedule;
  rule.weights = system.weights;
  rule.sync = traits(system.sync).stage;
  rule.in_flight = plan.in_flight;
  rule.optimizer_slots = optimizer_slots(optimizer_of_stages(system, plan.optimizer),
                                         traits(system.weights).predicts());
  rule.average = plan.ema > 0 && rule.sync != StageSync::waves;
  rule.server = plan.server.has_value() && rule.sync == StageSync::waves;
  // Without a bound a server adds each push as it comes, so that the next pull holds it.
  const bool bounded = rule.server && traits(system.sync).bounded;
  rule.clock_distance = bounded ? plan.server->clock_distance : 0;
  rule.requests_ahead = rule.clock_distance > 0 && !plan.server->pulls_newest();
  rule.halves_pushes = rule.server && plan.server->halves_pushes();
  rule.round = rule.server ? plan.server->round : 1;
  const ScheduleTraits& schedule = traits(system.schedule);
  const bool takes_all =
      schedule.whole_minibatches || schedule.backward == BackwardForm::by_minibatch;
  if (takes_all) rule.micro_batches_of_backward = plan.micro_batches;
  const bool adds_waves = traits(rule.weights).update_by_wave && plan.in_flight > 1;
  rule.adds_gradients = plan.micro_batches > 1 || adds_waves;
  return rule;
}

MemoryRule memory_rule(const Plan& plan, VirtualWorkerId vw, StageId stage) {
  const System system = composition(plan);
  MemoryRule rule = memory_rule(plan);
  rule.all_reduced = all_reduced(plan, vw, stage, rule.sync);
  if (traits(system.weights).predicts()) {
    const PlanVirtualWorker& worker = plan.virtual_workers[static_cast<std::size_t>(vw.value)];
    const VersionDifference steps =
        steps_at(system, schedule_request(plan, worker, system.schedule), stage);
    rule.forward_ahead = steps.forward > 0;
    rule.backward_ahead = steps.backward > 0;
  }
  return rule;
}

MemoryLedger stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage, std::optional<int> replica,
                          HeldTable& table, ModelTables* tables) {
  if (plan.runtime == "megatron-deepspeed") {
    return megatron_stage_ledger(plan, cluster, profile, vw, stage);
  }
  const MemoryRule rule = memory_rule(plan, vw, stage);
  const Stages& stages = stages_of(plan, vw);
  const ScheduleRequest request = schedule_request(
      plan, plan.virtual_workers[static_cast<std::size_t>(vw.value)], rule.schedule);
  const auto& counts = table.of(rule.schedule, request);
  const int micro_batch = plan.minibatch_of(vw) / plan.micro_batches;
  std::vector<int> ends;
  for (const PlanStage& s : stages) ends.push_back(s.end_layer);

  const int device = stage.value % request.stages;
  const int replicas = static_cast<int>(stages[static_cast<std::size_t>(device)].devices.size());
  ensure(replica.value_or(0) < replicas, "no such replica");
  MemoryLedger fullest;
  for (int r = replica.value_or(0); r < (replica ? *replica + 1 : replicas); ++r) {
    std::vector<ChunkMemory> chunks;
    for (int j = device; j < static_cast<int>(stages.size()); j += request.stages) {
      const PlanStage& chunk = stages[static_cast<std::size_t>(j)];
      const int samples = share_of(chunk, micro_batch, r);
      const DeviceKind& kind = cluster.kind_of(chunk.devices[static_cast<std::size_t>(r)]);
      ChunkMemory memory;
      if (tables != nullptr) {
        memory.footprint =
            from_tables(plan, rule, profile, kind, samples, ends, StageId{j}, *tables);
      } else {
        const LayerCosts costs = costs_on(profile, kind, samples, updates_of(plan));
        const int passes = passes_of_action(plan, rule);
        memory.footprint = stage_footprint(profile, costs, ends, StageId{j}, passes);
        add_samples(memory.footprint, profile, chunk, samples, passes, costs.own_memory);
      }
      const bool recompute = recomputes(chunk, rule.weights);
      memory.keep = recompute ? Keep::inputs : Keep::activations;
      chunks.push_back(memory);
    }
    MemoryLedger ledger = device_ledger(rule, counts, device, chunks);
    if (ledger.total() > fullest.total()) fullest = std::move(ledger);
  }
  return fullest;
}

namespace {

// Counts are a pure function of what they are asked with: remembering them changes no answer.
HeldTable& remembered() {
  thread_local HeldTable table;
  return table;
}

}  // namespace

MemoryLedger stage_ledger(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage, std::optional<int> replica) {
  return stage_ledger(plan, cluster, profile, vw, stage, replica, remembered());
}

std::vector<StageNeed> replica_needs(const Plan& plan, const Cluster& cluster,
                                     const Profile& profile, VirtualWorkerId vw, StageId stage,
                                     ModelTables* tables) {
  const PlanStage& here = stages_of(plan, vw)[static_cast<std::size_t>(stage.value)];
  const int micro_batch = plan.minibatch_of(vw) / plan.micro_batches;
  std::vector<StageNeed> needs;
  std::set<std::pair<const DeviceKind*, int>> seen;
  for (std::size_t r = 0; r < here.devices.size(); ++r) {
    const DeviceKind& kind = cluster.kind_of(here.devices[r]);
    const int replica = static_cast<int>(r);
    if (!seen.emplace(&kind, share_of(here, micro_batch, replica)).second) continue;
    needs.push_back({replica, here.devices[r],
                     stage_ledger(plan, cluster, profile, vw, stage, replica,
                                  tables == nullptr ? remembered() : tables->held(), tables),
                     kind.memory, kind.for_plans()});
  }
  return needs;
}

StageNeed fullest_replica(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          VirtualWorkerId vw, StageId stage) {
  const std::vector<StageNeed> needs = replica_needs(plan, cluster, profile, vw, stage);
  return *std::max_element(needs.begin(), needs.end(), [](const StageNeed& a, const StageNeed& b) {
    return a.full() < b.full();
  });
}

}  // namespace hetpipe
