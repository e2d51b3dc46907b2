// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/groups.h"

#include <algorithm>

#include "base/index.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/profile/cut.h"
#include "partitioner/schedule/counts.h"
#include "runtime/model/parameters.h"

namespace hetpipe {
namespace {

RankSums sums_of(const TrainValues& values, const Roles& roles, const Role::Worker& role,
                 ExchangeScope scope) {
  const Plan& plan = values.job.plan;
  const int ranks = static_cast<int>(roles.of_rank.size());
  const Rank rank =
      roles.worker[at(role.virtual_worker.value)][at(role.stage().value)][at(role.replica)];
  std::vector<int> minibatches;
  for (std::size_t i = 0; i < plan.virtual_workers.size(); ++i) {
    minibatches.push_back(plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}));
  }
  const ExchangePlan parameters{plan.virtual_workers, roles.worker,
                                floats_of_layers(values.model, ShardMap::What::parameters)};
  const ExchangePlan statistics{plan.virtual_workers, roles.worker,
                                floats_of_layers(values.model, ShardMap::What::statistics)};
  return {.gradients = exchange_parts(parameters, scope, ranks)[at(rank.value)],
          .statistics = exchange_parts(statistics, scope, ranks)[at(rank.value)],
          .factors = mean_factors(statistics, scope, minibatches, plan.micro_batches,
                                  ranks)[at(rank.value)]};
}

}  // namespace

StageReplica stage_replica(const TrainValues& values, const Roles& roles,
                           const Role::Worker& role) {
  const auto& stages = roles.worker[at(role.virtual_worker.value)];
  StageReplica replica{.number = role.replica,
                       .ranks = stages[at(role.stage().value)],
                       .sums = sums_of(values, roles, role, ExchangeScope::virtual_worker)};
  const std::vector<int> ends =
      stage_ends(values.job.plan.virtual_workers[at(role.virtual_worker.value)]);
  const std::vector<std::vector<int>> producers = values.model.producers();
  std::vector<bool> receives(ends.size());
  for (const Transfer& transfer : transfers(producers, ends)) {
    receives[at(transfer.to_stage)] = true;
  }
  const Rank asker = stages.front().front();
  for (std::size_t k = 1; k < stages.size(); ++k) {
    const auto end = stages.begin() + static_cast<std::ptrdiff_t>(k);
    const bool further_chunk = std::find(stages.begin(), end, stages[k]) != end;
    if (receives[k] || further_chunk) continue;
    if (at(role.stage().value) == k) replica.asker = asker;
    if (role.stage() == StageId{0} && role.replica == 0) {
      replica.told.insert(replica.told.end(), stages[k].begin(), stages[k].end());
    }
  }
  return replica;
}

GroupSynchronizer::Setup group_setup(const TrainValues& values, const Roles& roles,
                                     const Role::Worker& role, StopCoordinator* stop) {
  GroupMember member{.virtual_worker = role.virtual_worker, .replica = role.replica, .stages = {}};
  const auto& stages = values.job.plan.virtual_workers[at(role.virtual_worker.value)].stages;
  for (const StageId id : role.stages) {
    const PlanStage& stage = stages[at(id.value)];
    const auto floats = [&](auto layout) {
      return layout(values.model, stage.first_layer, stage.end_layer).count();
    };
    member.stages.push_back({.id = id,
                             .parameters = floats(ParameterLayout::parameters),
                             .statistics = floats(ParameterLayout::statistics)});
  }
  return {.member = std::move(member),
          .sums = sums_of(values, roles, role, ExchangeScope::everybody),
          .checkpoints = values.checkpoints,
          .parts = values.parts,
          .coordinator = roles.coordinator(),
          .stop = stop};
}

namespace {
int most_held(const Plan& plan, const PlanVirtualWorker& vw, ScheduleRule schedule,
              HeldTable& table) {
  int most = 1;
  for (const HeldCounts& counts : table.of(schedule, schedule_request(plan, vw, schedule))) {
    most = std::max(most, counts.minibatches);
  }
  return most;
}
}  // namespace

RunAhead run_ahead(const Plan& plan) {
  const System system = composition(plan);
  RunAhead ahead;
  if (traits(system.weights).update_by_wave) ahead.between_sums = plan.in_flight;
  HeldTable table;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    ahead.held = std::max(ahead.held, most_held(plan, vw, system.schedule, table));
  }
  return ahead;
}

int most_minibatches_held(const Plan& plan, const PlanVirtualWorker& vw) {
  HeldTable table;
  return most_held(plan, vw, composition(plan).schedule, table);
}

MessagesAhead messages_ahead(const Plan& plan, const PlanVirtualWorker& vw, StageId stage) {
  HeldTable table;
  const ScheduleRule rule = composition(plan).schedule;
  const ScheduleRequest request = schedule_request(plan, vw, rule);
  return table.of(rule, request)[at(stage.value % request.stages)].ahead;
}

}  // namespace hetpipe
