// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/job.h"

#include "base/hash.h"
#include "base/text.h"
#include "partitioner/plan/pipeline.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/generate.h"
#include "runtime/model/zoo.h"

#include <algorithm>

namespace hetpipe {

Model make_model_of(const TrainJob& job) {
  Model model = make_model(job.model, job.sample, job.classes);
  model.set_label_smoothing(static_cast<float>(job.label_smoothing));
  if (job.mixes.any()) model.mix_labels(job.mixes.option());
  return model;
}

Sampler make_sampler(const TrainJob& job) {
  std::vector<int> minibatches;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    minibatches.push_back(job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}));
  }
  return Sampler(job.seed, job.dataset_size, std::move(minibatches), job.start.origin_consumed,
                 job.end_position, job.start.origin_label * job.plan.wave_length(),
                 job.shuffle ? SampleOrder::shuffled : SampleOrder::file);
}

bool has_waves(const Plan& plan) { return traits(composition(plan).sync).waves(); }

bool makes_outer_steps(const Plan& plan) {
  return plan.server && traits(composition(plan).sync).rounds;
}

bool optimizer_at_servers(const Plan& plan) { return traits(composition(plan).sync).steps; }

OptimizerOptions optimizer_of_stages(const TrainJob& job) {
  if (!optimizer_at_servers(job.plan)) return job.optimizer;
  OptimizerOptions plain{.name = optimizer_of_stages(composition(job.plan), job.optimizer.name),
                         .learning_rate = job.stage_rate,
                         .ema = job.optimizer.ema,
                         .schedule = job.optimizer.schedule,
                         .clipping = job.optimizer.clipping};
  plain.schedule.final_rate *= job.stage_rate / job.optimizer.learning_rate;
  return plain;
}

std::vector<std::string> slots_of_stages(const TrainJob& job) {
  return optimizer_named(optimizer_of_stages(composition(job.plan), job.optimizer.name)).slots;
}

std::vector<std::string> slots_of_servers(const TrainJob& job) {
  if (makes_outer_steps(job.plan)) return {"outer_momentum"};
  if (!optimizer_at_servers(job.plan)) return {};
  std::vector<std::string> slots = optimizer_named(job.optimizer.name).slots;
  slots.emplace_back("newest_step");
  return slots;
}

double steps_ahead(const Plan& plan) {
  return static_cast<double>(plan.in_flight - 1) / plan.in_flight;
}

ElementType push_type(const Plan& plan) {
  return plan.server && plan.server->halves_pushes() ? ElementType::bf16 : ElementType::fp32;
}

WaveRules make_wave_rules(const TrainJob& job, const Sampler& sampler) {
  WaveRules rules;
  rules.in_flight = job.plan.in_flight;
  rules.round = job.plan.server ? job.plan.server->round : 1;
  rules.first_wave = job.start.origin_label;
  rules.played = job.start.label - job.start.origin_label;
  rules.inside = job.start.inside;
  rules.minibatches_before = job.start.origin_counts.worker_minibatches;
  rules.updates_before = job.start.origin_counts.updates;
  for (int i = 0; i < sampler.workers(); ++i) rules.end.push_back(sampler.count(i));
  const System system = composition(job.plan);
  if (!traits(system.sync).waves()) {
    // All take part in every sum: who has no sample left in the last round adds nothing.
    rules.end.assign(rules.end.size(), *std::max_element(rules.end.begin(), rules.end.end()));
    return rules;
  }
  rules.distance = job.plan.server->clock_distance;
  rules.pull = job.plan.server->pulls_newest() ? PullRule::newest : PullRule::bound;
  if (!traits(system.sync).bounded) {
    rules.distance = kUnbounded;
    rules.pull = PullRule::newest;
  }
  return rules;
}

Counts counts_at(const TrainJob& job, const Sampler& sampler, const WaveRules& rules, Label label) {
  Counts counts = job.start.origin_counts;
  const Label origin = job.start.origin_label;
  const Minibatch first = sampler.first_minibatch();
  std::int64_t most = 0;
  for (int i = 0; i < sampler.workers(); ++i) {
    const std::int64_t done = std::min(sampler.count(i), rules.end_of(label)) - first;
    counts.minibatches += done;
    most = std::max(most, done);
  }
  counts.worker_minibatches += most;
  const bool by_wave = traits(composition(job.plan).weights).update_by_wave;
  counts.updates += by_wave || optimizer_at_servers(job.plan) ? label - origin : most;
  return counts;
}

PeriodicSchedule worker_schedule(const TrainJob& job, const WaveRules& rules, VirtualWorkerId vw) {
  const System system = composition(job.plan);
  const PlanVirtualWorker& worker = job.plan.virtual_workers[static_cast<std::size_t>(vw.value)];
  const Minibatch end = rules.end[static_cast<std::size_t>(vw.value)];
  ScheduleRequest request = schedule_request(job.plan, worker, system.schedule);
  request.first = rules.start_minibatch();
  request.end = end;
  // Who comes too late for any sample only evaluates.
  if (request.first >= end) return PeriodicSchedule(static_cast<std::size_t>(request.stages));
  const bool waves = traits(system.sync).waves();
  Lowering how;
  how.sync = traits(system.sync).stage;
  how.in_flight = waves ? rules.in_flight : 1;
  how.round = waves ? rules.round : 1;
  how.first = waves ? rules.first_minibatch() : request.first;
  how.end = end;
  for (const PlanStage& stage : worker.stages) {
    how.recompute.push_back(recomputes(stage, system.weights));
  }
  return periodic_schedule(system.schedule, request, how);
}

std::uint64_t plan_hash(const Plan& plan) {
  Plan decided = plan;
  decided.predicted.reset();
  for (PlanVirtualWorker& vw : decided.virtual_workers) {
    for (PlanStage& stage : vw.stages) stage.predicted.reset();
  }
  return hash_text(to_toml(decided));
}

void check_playable(const Plan& plan, Problems& problems) {
  const System parts = composition(plan);
  const ScheduleTraits& schedule = traits(parts.schedule);
  const WeightTraits& weights = traits(parts.weights);
  const bool waves = traits(parts.sync).waves();
  const auto quoted = [](std::string_view name) { return "'" + std::string(name) + "'"; };
  const std::string sync = quoted(to_string(parts.sync));
  const std::string summed{to_string(SyncRule::all_reduce)};
  const std::string senseless = why_senseless(plan);
  if (!senseless.empty()) problems.add("plan", senseless + ". Change one of them.");
  if (!plan.runtime.empty()) {
    problems.add("plan", "runtime = '" + plan.runtime +
                             "' (hetpipe simulate imitates it; training has its own). Leave it "
                             "out.");
  }
  if (waves && !plan.server) {
    problems.add("plan",
                 "no [parameter_server] (the virtual workers synchronise through it). Add one with "
                 "its nodes.");
  }
  if (!waves && plan.server) {
    problems.add(
        "plan",
        "a [parameter_server], and sync = " + sync +
            " (gradients are added up between "
            "the workers; the server would have nothing to do). Leave it out, or set sync = \"" +
            std::string(to_string(SyncRule::wsp)) + "\".");
  }
  if (waves && weights.update_by_wave) {
    problems.add("plan", "weights " + quoted(weights.name) + " under sync " + sync +
                             " (a wave's update is pushed when it is "
                             "made, so there is no second version to keep). Use sync = \"" +
                             summed + "\".");
  }
  if (waves && schedule.several_chunks) {
    problems.add("plan", "schedule " + quoted(schedule.name) + " under sync " + sync +
                             " (a stage pushes one range of layers, "
                             "and a device has several here). Use sync = \"" +
                             summed + "\".");
  }
  // B computes with the weights that its F had; or running the forward again is what its rule says.
  const bool can_recompute = weights.keeps_of_forward() || weights.recomputes;
  for (std::size_t i = 0; i < plan.virtual_workers.size(); ++i) {
    const PlanVirtualWorker& vw = plan.virtual_workers[i];
    const int micro_batch =
        plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}) / plan.micro_batches;
    for (std::size_t k = 0; k < vw.stages.size(); ++k) {
      const PlanStage& stage = vw.stages[k];
      const std::vector<int> samples = samples_of_replicas(stage, micro_batch);
      const std::string where = format("plan: virtual worker %zu stage %zu", i, k);
      if (stage.recompute && vw.stages.size() > 1 && !can_recompute) {
        problems.add(where,
                     "recompute = true under weights " + quoted(weights.name) +
                         " (the weights of the first forward pass are gone when it would run "
                         "again, so the gradient would differ). Leave it out, or use "
                         "weights that are kept, such as " +
                         std::string(to_string(WeightRule::stash)) + ".");
      }
      if (*std::min_element(samples.begin(), samples.end()) < 1) {
        problems.add(where, format("%zu devices for a micro-batch of %d samples (each needs at "
                                   "least one). Use fewer devices or micro_batches.",
                                   stage.devices.size(), micro_batch));
      }
      const auto first = std::find_if(vw.stages.begin(), vw.stages.end(), [&](const auto& other) {
        return other.devices == stage.devices;
      });
      if (samples != samples_of_replicas(*first, micro_batch)) {
        problems.add(where,
                     "different shares from the previous stage on the same devices (they "
                     "compute the same samples in all their chunks). Use the same.");
      }
    }
  }
}

}  // namespace hetpipe
