// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/exact.h"

#include <algorithm>
#include <map>

#include "base/hash.h"
#include "base/text.h"
#include "partitioner/plan/system.h"
#include "runtime/pipeline/optimizer.h"

namespace hetpipe {
namespace {

std::string of_stage(std::size_t worker, std::size_t stage) {
  return format("worker-%zu/stage-%zu", worker, stage);
}

std::string of_shard(std::size_t shard) { return format("shard-%zu", shard); }

std::string numbered(const char* what, std::size_t number) {
  return format("%s-%zu", what, number);
}

// Tensors without elements are left out; to the reader, what is not there is empty.
void add(ExactState& state, const std::string& name, const std::vector<float>& values) {
  if (values.empty()) return;
  state.tensors.push_back({.name = name,
                           .shape = {static_cast<std::int64_t>(values.size())},
                           .values = values,
                           .order = {}});
}

class Tensors {
 public:
  explicit Tensors(const ExactState& state) {
    for (const NamedTensor& tensor : state.tensors) by_name_[tensor.name] = &tensor;
  }
  std::vector<float> get(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? std::vector<float>() : found->second->values;
  }

 private:
  std::map<std::string, const NamedTensor*> by_name_;
};

std::int64_t number(const ExactState& state, const std::string& name, std::int64_t otherwise = -1) {
  const auto found = state.numbers.find(name);
  return found == state.numbers.end() ? otherwise : found->second;
}

// Minibatches of its last wave that a checkpoint holds, where the run stopped inside of it; else 0.
int inside_of(const Checkpoint& checkpoint) {
  return static_cast<int>(number(*checkpoint.exact, "inside", 0));
}

// Hashes travel as signed numbers of the same bits.
std::int64_t as_number(std::uint64_t hash) { return static_cast<std::int64_t>(hash); }

// Of the plan, without what arithmetic_hash() and the options' hash have.
std::uint64_t partition_hash(const TrainJob& job) {
  Plan plan = job.plan;
  plan.precision = {};
  plan.ema = 0;
  return plan_hash(plan);
}

// What options and plan say of it; two machines may still differ in their cards. fp32, the default,
// has no name here: earlier checkpoints have none for it either.
std::uint64_t arithmetic_hash(const TrainJob& job) {
  const PrecisionChoice& precision = job.plan.precision;
  return hash_text(job.device + " " + (precision == PrecisionChoice{} ? "" : to_string(precision)));
}

// Its stages store what a continuation needs: under waves, of pipelines that are never flushed,
// with stashed weights (or one version, of one minibatch at a time). Replicas have running
// statistics of their own, which nobody stores.
bool plan_can_be_exact(const Plan& plan) {
  const System system = composition(plan);
  const WeightTraits& weights = traits(system.weights);
  const bool exactly = weights.continues_exactly && (weights.stashes || plan.in_flight == 1);
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      if (stage.devices.size() > 1) return false;
    }
  }
  return traits(system.sync).waves() && !traits(system.schedule).has_flush && exactly;
}

}  // namespace

bool writes_exact(const TrainJob& job, const WaveRules& rules) {
  return job.exact_checkpoints && plan_can_be_exact(job.plan) && can_be_exact(rules);
}

std::optional<ExactState> exact_state(const TrainJob& job, const WaveRules& rules,
                                      const CheckpointParts& parts) {
  if (!writes_exact(job, rules)) return std::nullopt;
  ExactState state;
  const Minibatch here = rules.end_of(parts.label);
  const bool whole =
      std::all_of(rules.end.begin(), rules.end.end(), [&](Minibatch end) { return end >= here; });
  state.numbers = {{"build", as_number(job.build)},
                   {"plan", as_number(partition_hash(job))},
                   {"arithmetic", as_number(arithmetic_hash(job))},
                   {"recipe", as_number(job.recipe)},
                   {"origin_label", job.start.origin_label},
                   {"origin_consumed", job.start.origin_consumed},
                   {"origin_minibatches", job.start.origin_counts.minibatches},
                   {"origin_worker_minibatches", job.start.origin_counts.worker_minibatches},
                   {"origin_updates", job.start.origin_counts.updates},
                   {"end_position", job.end_position},
                   {"all_waves_full", whole ? 1 : 0}};
  // The label is then that of the wave cut short, which a continuation takes up again.
  if (here % rules.length() != 0) state.numbers["inside"] = here % rules.length();
  const std::vector<std::string> slots = slots_of_stages(job);
  for (std::size_t i = 0; i < parts.workers.size(); ++i) {
    for (std::size_t k = 0; k < parts.workers[i].size(); ++k) {
      const StageState& stage = parts.workers[i][k];
      const std::string top = of_stage(i, k) + "/";
      for (std::size_t s = 0; s < slots.size(); ++s) add(state, top + slots[s], stage.slots[s]);
      add(state, top + "statistics", stage.statistics);
      if (stage.loss_scale) {
        add(state, top + "loss-scale",
            {static_cast<float>(stage.loss_scale->exponent),
             static_cast<float>(stage.loss_scale->since_change)});
      }
      if (stage.loss_scale && stage.loss_scale->begun) {
        add(state, top + "loss-scale-begun", {static_cast<float>(*stage.loss_scale->begun)});
      }
      if (!stage.exact) continue;
      add(state, top + "base", stage.exact->base);
      add(state, top + "wave-sum", stage.exact->wave_sum);
      for (std::size_t u = 0; u < stage.exact->updates.size(); ++u) {
        add(state, top + numbered("update", u), stage.exact->updates[u]);
      }
      for (std::size_t w = 0; w < stage.exact->own_waves.size(); ++w) {
        add(state, top + numbered("own-wave", w), stage.exact->own_waves[w]);
      }
    }
  }
  const std::vector<std::string> server_slots = slots_of_servers(job);
  for (std::size_t s = 0; s < parts.shards.size(); ++s) {
    const auto& earlier = parts.shards[s].earlier;
    for (std::size_t e = 0; e < earlier.size(); ++e) {
      add(state, of_shard(s) + "/" + numbered("weights", e), earlier[e].weights);
      add(state, of_shard(s) + "/" + numbered("statistics", e), earlier[e].statistics);
      add(state, of_shard(s) + "/" + numbered("average", e), earlier[e].average);
      for (std::size_t i = 0; i < earlier[e].state.size(); ++i) {
        add(state, of_shard(s) + "/" + numbered(server_slots[i].c_str(), e), earlier[e].state[i]);
      }
    }
  }
  return state;
}

std::optional<std::string> why_not_exact(const Checkpoint& checkpoint, const TrainJob& job) {
  const System system = composition(job.plan);
  if (!traits(system.sync).waves()) {
    return traits(system.schedule).has_flush
               ? "between minibatches they are empty anyway (weights and optimizer state continue "
                 "exactly)"
               : "without parameter servers nothing is stored of minibatches in flight";
  }
  if (!checkpoint.exact) return "it holds no exact state";
  const ExactState& exact = *checkpoint.exact;
  if (checkpoint.system != job.plan.system) return "it was written under another system";
  if (number(exact, "plan") != as_number(partition_hash(job))) {
    return "it was written under another plan";
  }
  if (number(exact, "build") != as_number(job.build)) {
    return "it was written by another build of hetpipe";
  }
  if (number(exact, "arithmetic") != as_number(arithmetic_hash(job))) {
    return "it was written under another --device or --precision";
  }
  if (number(exact, "recipe") != as_number(job.recipe)) {
    return "it was trained with other options";
  }
  if (number(exact, "all_waves_full") != 1 && number(exact, "end_position") != job.end_position) {
    return "its run was to end at another point (--epochs), within a wave";
  }
  return std::nullopt;
}

StartingPoint exact_start(std::string file, const Checkpoint& checkpoint) {
  const auto origin = [&](const char* what) { return number(*checkpoint.exact, what); };
  return {.checkpoint = std::move(file),
          .label = checkpoint.label - (inside_of(checkpoint) > 0 ? 1 : 0),
          .consumed = checkpoint.sampler.consumed,
          .exact = true,
          .inside = inside_of(checkpoint),
          .origin_label = origin("origin_label"),
          .origin_consumed = origin("origin_consumed"),
          .origin_counts = {.minibatches = origin("origin_minibatches"),
                            .worker_minibatches = origin("origin_worker_minibatches"),
                            .updates = origin("origin_updates")}};
}

CheckpointParts parts_from(const Checkpoint& checkpoint, const TrainJob& job) {
  const Tensors tensors(*checkpoint.exact);
  const WaveRules rules = make_wave_rules(job, make_sampler(job));
  const Label start = rules.start_wave();
  const std::size_t updates = rules.single_updates(rules.start_minibatch()).size();
  CheckpointParts parts{.label = start, .workers = {}, .shards = {}};
  const Label oldest = rules.bound_label(start);
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    std::vector<StageState>& stages = parts.workers.emplace_back();
    for (std::size_t k = 0; k < job.plan.virtual_workers[i].stages.size(); ++k) {
      const std::string top = of_stage(i, k) + "/";
      StageState& stage = stages.emplace_back();
      stage.label = start;
      for (const std::string& slot : slots_of_stages(job)) {
        stage.slots.push_back(tensors.get(top + slot));
      }
      stage.statistics = tensors.get(top + "statistics");
      const std::vector<float> scale = tensors.get(top + "loss-scale");
      if (scale.size() == 2) {
        stage.loss_scale = {static_cast<int>(scale[0]), static_cast<int>(scale[1]), {}};
        const std::vector<float> begun = tensors.get(top + "loss-scale-begun");
        if (!begun.empty()) stage.loss_scale->begun = static_cast<int>(begun[0]);
      }
      ExactWeights& exact = stage.exact.emplace();
      exact.label = rules.bound_label(rules.last_gate(rules.start_minibatch() - 1));
      exact.base = tensors.get(top + "base");
      exact.wave_sum = tensors.get(top + "wave-sum");
      for (std::size_t u = 0; u < updates; ++u) {
        exact.updates.push_back(tensors.get(top + numbered("update", u)));
      }
      for (Label w = oldest; w < start; ++w) {
        exact.own_waves.push_back(
            tensors.get(top + numbered("own-wave", static_cast<std::size_t>(w - oldest))));
      }
    }
  }
  for (std::size_t s = 0; job.plan.server && s < job.plan.server->nodes.size(); ++s) {
    ShardState& shard = parts.shards.emplace_back();
    const auto snapshot_of = [&](Label label) -> ShardSnapshot {
      const auto e = static_cast<std::size_t>(label - oldest);
      ShardSnapshot snapshot{
          .label = label,
          .weights = tensors.get(of_shard(s) + "/" + numbered("weights", e)),
          .statistics = tensors.get(of_shard(s) + "/" + numbered("statistics", e)),
          .average = tensors.get(of_shard(s) + "/" + numbered("average", e))};
      for (const std::string& slot : slots_of_servers(job)) {
        snapshot.state.push_back(tensors.get(of_shard(s) + "/" + numbered(slot.c_str(), e)));
      }
      return snapshot;
    };
    for (Label label = oldest; label < start; ++label) shard.earlier.push_back(snapshot_of(label));
    shard.snapshot.label = start;
    if (rules.inside > 0) shard.snapshot = snapshot_of(start);
  }
  return parts;
}

}  // namespace hetpipe
