// SPDX-License-Identifier: Apache-2.0
#include "launch/train/job.h"

#include "base/hash.h"
#include "base/text.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "runtime/model/zoo.h"

#include <algorithm>
#include <set>

namespace hetpipe {

Model make_model_of(const TrainJob& job) {
  Model model = make_model(job.model, job.sample, job.classes);
  model.set_label_smoothing(static_cast<float>(job.label_smoothing));
  return model;
}

Sampler make_sampler(const TrainJob& job) {
  std::vector<int> minibatches;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    minibatches.push_back(job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)}));
  }
  return Sampler(job.seed, job.dataset_size, std::move(minibatches), job.start.origin_consumed,
                 job.end_position, job.start.origin_label * job.plan.in_flight);
}

WaveRules make_wave_rules(const TrainJob& job, const Sampler& sampler) {
  WaveRules rules;
  rules.in_flight = job.plan.in_flight;
  rules.distance = job.plan.server->clock_distance;
  rules.pull = job.plan.server->pull == "newest" ? PullRule::newest : PullRule::bound;
  rules.first_wave = job.start.origin_label;
  rules.played = job.start.label - job.start.origin_label;
  for (int i = 0; i < sampler.workers(); ++i) rules.end.push_back(sampler.count(i));
  return rules;
}

std::vector<Label> due_labels(const TrainJob& job, const WaveRules& rules, int every, Label after) {
  std::set<Label> labels;
  const Label end = rules.end_label();
  if (every > 0) {
    for (Label l = every; l < end; l += every) labels.insert(l);
  }
  std::int64_t round = 0;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    round += job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)});
  }
  const std::int64_t wave =
      round * job.plan.in_flight;  // samples of one wave of all virtual workers
  const std::int64_t origin = job.start.origin_consumed;
  for (std::int64_t epoch = origin / job.dataset_size + 1;; ++epoch) {
    const std::int64_t left = epoch * job.dataset_size - origin;
    const Label label = rules.first_wave + (left + wave - 1) / wave;
    if (label >= end) break;
    labels.insert(label);
  }
  labels.insert(end);
  labels.erase(labels.begin(), labels.upper_bound(after));
  return {labels.begin(), labels.end()};
}

Minibatch gate_minibatch(const WaveRules& rules, Label label) {
  return (label + rules.distance + 1) * rules.in_flight - 1;
}

std::vector<Label> evaluation_labels(const TrainJob& job, const WaveRules& rules) {
  // A continued run comes by the gates of the labels before its start once more.
  const Label after = std::max(rules.first_wave, rules.bound_label(rules.start_wave()) - 1);
  std::vector<Label> labels = due_labels(job, rules, job.evaluate_every, after);
  const Minibatch shortest = *std::min_element(rules.end.begin(), rules.end.end());
  std::erase_if(labels, [&](Label label) {
    return label < rules.end_label() && gate_minibatch(rules, label) >= shortest;
  });
  return labels;
}

StageActions stage_actions(const WaveRules& rules, VirtualWorkerId vw, int stages, StageId stage,
                           const std::vector<Label>& evaluations) {
  const Minibatch first = rules.start_minibatch();
  const Minibatch end = rules.end[static_cast<std::size_t>(vw.value)];
  StageActions actions;
  if (first < end) {  // a virtual worker that comes too late for any sample only evaluates
    const Schedule schedule = lower_wsp(continuous_1f1b(stages, rules.in_flight, first, end),
                                        rules.in_flight, rules.first_minibatch(), end);
    actions = schedule[static_cast<std::size_t>(stage.value)];
  }
  for (const Label label : evaluations) {
    const Minibatch p = label == rules.end_label() ? end : gate_minibatch(rules, label);
    const auto before = std::find_if(actions.begin(), actions.end(),
                                     [&](const Action& action) { return action.minibatch == p; });
    actions.insert(before, Action{.kind = ActionKind::evaluate, .minibatch = p});
  }
  return actions;
}

std::uint64_t plan_hash(const Plan& plan) {
  Plan decided = plan;
  decided.predicted.reset();
  for (PlanVirtualWorker& vw : decided.virtual_workers) {
    for (PlanStage& stage : vw.stages) stage.predicted.reset();
  }
  return hash_text(to_toml(decided));
}

namespace {

// A part of the plan's system other than the ones that the executor has.
template <class Rule>
void check_part(const char* key, Rule asked, Rule played, Problems& problems) {
  if (asked == played) return;
  const std::string has{to_string(played)};
  problems.add("plan", std::string(key) + " = '" + std::string(to_string(asked)) +
                           "' (training plays " + has + " alone so far; hetpipe simulate plays " +
                           "all). Use a plan with " + key + " = \"" + has + "\".");
}

}  // namespace

void check_playable(const Plan& plan, Problems& problems) {
  const System parts = composition(plan);
  check_part("schedule", parts.schedule, ScheduleRule::continuous_1f1b, problems);
  // One stage with one minibatch in flight has no second version to stash.
  const bool one_at_a_time =
      plan.in_flight == 1 && std::all_of(plan.virtual_workers.begin(), plan.virtual_workers.end(),
                                         [](const auto& vw) { return vw.stages.size() == 1; });
  if (parts.weights != WeightRule::one_version || !one_at_a_time) {
    check_part("weights", parts.weights, WeightRule::stash, problems);
  }
  check_part("sync", parts.sync, SyncRule::wsp, problems);
  if (!plan.runtime.empty()) {
    problems.add("plan", "runtime = '" + plan.runtime +
                             "' (hetpipe simulate imitates it; training has its own). Leave it "
                             "out.");
  }
  if (!plan.server && parts.sync == SyncRule::wsp) {
    problems.add("plan",
                 "no [parameter_server] (the virtual workers meet there). Add one with its nodes.");
  }
  if (plan.micro_batches != 1) {
    problems.add("plan", format("micro_batches = %d (training pipelines whole minibatches so far). "
                                "Set it to 1.",
                                plan.micro_batches));
  }
  for (std::size_t i = 0; i < plan.virtual_workers.size(); ++i) {
    for (std::size_t k = 0; k < plan.virtual_workers[i].stages.size(); ++k) {
      const PlanStage& stage = plan.virtual_workers[i].stages[k];
      const std::string where = format("plan: virtual worker %zu stage %zu", i, k);
      if (stage.devices.size() != 1) {
        problems.add(
            where,
            format("%zu devices (training has no replicated stages so far). Name one device.",
                   stage.devices.size()));
      }
      if (stage.recompute) {
        problems.add(where,
                     "recompute = true (training keeps all activations so far). Leave it out.");
      }
    }
  }
}

}  // namespace hetpipe
