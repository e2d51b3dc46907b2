// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/values.h"

#include "base/index.h"
#include "partitioner/plan/placement.h"
#include "runtime/training/exact.h"

namespace hetpipe {
namespace {

int shard_count(const Plan& plan) {
  return plan.server ? static_cast<int>(plan.server->nodes.size()) : 0;
}

std::vector<int> shards_of(const TrainJob& job, const Model& model) {
  if (!job.plan.server) return std::vector<int>(at(model.layer_count()), -1);
  std::vector<std::int64_t> bytes;
  for (int l = 0; l < model.layer_count(); ++l) {
    bytes.push_back(model.parameter_count(l) * static_cast<std::int64_t>(sizeof(float)));
  }
  return shard_of_layers(job.plan, bytes);
}

PartNumbers number_parts(const Plan& plan) {
  std::vector<int> stages;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    stages.push_back(static_cast<int>(vw.stages.size()));
  }
  return {std::move(stages), shard_count(plan)};
}

}  // namespace

TrainValues::TrainValues(const TrainJob& the_job)
    : job(the_job),
      model(make_model_of(job)),
      sampler(make_sampler(job)),
      rules(make_wave_rules(job, sampler)),
      planned(rules),
      map(model, shards_of(job, model), shard_count(job.plan)),
      checkpoints{.next = [due = due_labels(job, rules, job.checkpoint_every, rules.start_wave())](
                              Label label) { return due.next(label); },
                  .enabled = !job.checkpoint_folder.empty(),
                  .exact = writes_exact(job, rules)},
      parts(number_parts(job.plan)),
      evaluations(job, rules) {
  if (job.start.checkpoint.empty()) return;
  checkpoint = read_checkpoint(job.start.checkpoint);
  if (job.start.exact) continued = parts_from(*checkpoint, job);
}

FlatState TrainValues::start_of(const std::vector<int>& layers) const {
  return starting_state(job, model, checkpoint ? &*checkpoint : nullptr, layers);
}

FlatState TrainValues::start_of_stage(VirtualWorkerId vw, StageId stage) const {
  const PlanStage& of = job.plan.virtual_workers[at(vw.value)].stages[at(stage.value)];
  FlatState start = start_of(layers_between(of.first_layer, of.end_layer));
  if (continued) {
    const StageState& own = continued->workers[at(vw.value)][at(stage.value)];
    start.slots = own.slots;
    start.statistics = own.statistics;
  }
  return start;
}

const ExactWeights* TrainValues::exact_of_stage(VirtualWorkerId vw, StageId stage) const {
  return continued ? &*continued->workers[at(vw.value)][at(stage.value)].exact : nullptr;
}

std::optional<LossScale::State> TrainValues::loss_scale_of_stage(VirtualWorkerId vw,
                                                                 StageId stage) const {
  if (!continued) return std::nullopt;
  return continued->workers[at(vw.value)][at(stage.value)].loss_scale;
}

std::vector<ShardSnapshot> TrainValues::snapshots_of(ShardId shard) const {
  std::vector<ShardSnapshot> snapshots;
  if (continued) snapshots = continued->shards[at(shard.value)].earlier;
  if (rules.inside > 0) {  // the checkpoint's own weights hold the part of a wave
    snapshots.push_back(continued->shards[at(shard.value)].snapshot);
    return snapshots;
  }
  FlatState start = start_of(map.layers(shard));
  snapshots.push_back({.label = rules.start_wave(),
                       .weights = std::move(start.parameters),
                       .statistics = std::move(start.statistics),
                       .average = std::move(start.average),
                       .state = std::move(start.state)});
  return snapshots;
}

std::vector<std::vector<float>> TrainValues::running_on(ShardId shard) const {
  if (!continued) {
    return std::vector<std::vector<float>>(at(rules.workers()),
                                           start_of(map.layers(shard)).statistics);
  }
  std::vector<std::vector<float>> running;
  for (const auto& stages : continued->workers) {
    std::vector<float> of_all;
    for (const StageState& stage : stages) {
      of_all.insert(of_all.end(), stage.statistics.begin(), stage.statistics.end());
    }
    running.push_back(of_layers(model, ShardMap::What::statistics, of_all, map.layers(shard)));
  }
  return running;
}

std::vector<int> stage_ends(const PlanVirtualWorker& vw) {
  std::vector<int> ends;
  for (const PlanStage& stage : vw.stages) ends.push_back(stage.end_layer);
  return ends;
}

std::vector<int> layers_between(int first, int end) {
  std::vector<int> layers;
  for (int l = first; l < end; ++l) layers.push_back(l);
  return layers;
}

}  // namespace hetpipe
