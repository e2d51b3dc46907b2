// SPDX-License-Identifier: Apache-2.0
// Plan, rates, start.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/fields_json.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"
#include "launch/command/said_of.h"
#include "launch/train/ground.h"
#include "launch/train/prepare_parts.h"
#include "partitioner/plan/system.h"
#include "runtime/training/build_hash.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/exact.h"
#include "runtime/training/rates.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

// Servers take ranks without a device; where there are too few of these they are hosted by workers.
void seat_servers(Plan& plan, const std::vector<std::string>& free_nodes) {
  if (!plan.server) return;
  const auto has_room = [&](const std::string& node) {
    return std::find(free_nodes.begin(), free_nodes.end(), node) != free_nodes.end();
  };
  std::vector<std::string>& nodes = plan.server->nodes;
  if (std::all_of(nodes.begin(), nodes.end(), has_room)) return;
  plan.server->hosted = true;
  std::set<std::string> of_workers;
  for (const PlanVirtualWorker& vw : plan.virtual_workers) {
    for (const PlanStage& stage : vw.stages) {
      for (const DeviceName& device : stage.devices) of_workers.insert(device.node);
    }
  }
  std::erase_if(nodes, [&](const std::string& node) { return !of_workers.contains(node); });
  if (nodes.empty()) nodes = {plan.virtual_workers.front().stages.front().devices.front().node};
}

Clipping decide_clipping(const TrainOptions& options, const Plan& plan) {
  if (!options.clip_norm) return {};
  const ClipScope scope = options.clip_scope ? *try_parse_clip_scope(*options.clip_scope)
                                             : usual_clip_scope(composition(plan));
  return {*options.clip_norm, scope};
}

// The newest checkpoint of the run that is intact; damaged ones are passed over.
void find_intact(const TrainOptions& options, Resumption& resumption) {
  const fs::path folder = fs::path(options.run_folder.value_or(*options.output)) / "checkpoints";
  for (const fs::path& file : list_checkpoints(folder)) {
    try {
      resumption.checkpoint = read_checkpoint(file);
      resumption.start.checkpoint = file.string();
      return;
    } catch (const UserError& error) {
      resumption.damaged.push_back({file.string(), error.problems().front().text});
    }
  }
  if (!resumption.damaged.empty()) {
    std::vector<Problem> damaged = std::move(resumption.damaged);
    damaged.push_back({folder.string(),
                       "holds no checkpoint that is intact (a new start would write over this "
                       "run). Give --resume FILE with a copy, or another --output to start anew."});
    throw UserError(std::move(damaged));
  }
  if (options.resume == "auto") return;
  throw UserError(
      "--resume",
      folder.string() +
          " holds no checkpoint (a run writes them at the end of every epoch, and every "
          "--checkpoint-every waves). Give --resume FILE, or start without --resume.");
}

// How the run damps its steps, as far as no option says otherwise.
std::string note_on_damping(const TrainOptions& options, const Plan& plan) {
  const OptimizerOptions optimizer = decide_optimizer(options, plan);
  const RateOptions rate = decide_rates(options, plan);
  const OptimizerTraits& traits = optimizer_named(plan.optimizer);
  std::string own, options_of;
  if (traits.orthogonal) {
    own = format("momentum %g and weight decay %g", optimizer.momentum, optimizer.weight_decay);
    options_of = "--momentum, --weight-decay";
  } else {
    own = (traits.alpha ? format("alpha %g", optimizer.alpha)
                        : format("betas %g,%g", optimizer.beta1, optimizer.beta2)) +
          format(" and damping %g in %d direction%s", optimizer.damping,
                 optimizer.damped_directions, optimizer.damped_directions == 1 ? "" : "s");
    options_of =
        std::string(traits.alpha ? "--alpha" : "--betas") + ", --damping, --damped-directions";
  }
  return format(
      "damped steps: %s with %s, learning rate %g, %s after a warm-up of %g epochs "
      "(--optimizer sgd-momentum trains without all of these; %s, --learning-rate, --lr-schedule "
      "and --lr-warmup change them)",
      plan.optimizer.c_str(), own.c_str(), optimizer.learning_rate, rate.schedule->c_str(),
      *rate.warmup, options_of.c_str());
}

}  // namespace

Plan decide_plan(const Given& given, const Ground* ground) {
  if (given.options.plan) return given.job.plan;
  const PlanningOptions planning = planning_of(given.options);
  Plan plan = said_of(given.profile_file, [&] {
    return make_plan(request_of(planning, *given.job.cluster, *given.job.profile));
  });
  if (ground != nullptr) seat_servers(plan, ground->free_nodes);
  return plan;
}

OptimizerOptions decide_optimizer(const TrainOptions& options, const Plan& plan) {
  const OptimizerTraits& traits = optimizer_named(plan.optimizer);
  const UsualTraining usual = usual_training(plan);
  OptimizerOptions optimizer{
      .name = plan.optimizer,
      .learning_rate = options.learning_rate.value_or(usual.rate),
      .momentum = options.momentum.value_or(usual.momentum),
      .nesterov = options.nesterov,
      .weight_decay =
          options.weight_decay.value_or(usual.weight_decay.value_or(traits.weight_decay)),
      .vectors_decay = options.decay_of ? *options.decay_of == "all" : !traits.decoupled,
      .rates = rates_of_groups(options.rate_of),
      .ema = plan.ema};
  const bool betas = options.betas.size() == 2;
  optimizer.beta1 = betas ? options.betas[0] : usual.beta1;
  optimizer.beta2 = betas ? options.betas[1] : usual.beta2;
  optimizer.nu = options.nu.value_or(optimizer.nu);
  optimizer.alpha = options.alpha.value_or(usual.alpha);
  optimizer.damping = options.damping.value_or(usual.damping);
  optimizer.damped_directions = options.damped_directions.value_or(usual.damped_directions);
  optimizer.epsilon = options.epsilon.value_or(optimizer.epsilon);
  optimizer.clipping = decide_clipping(options, plan);
  return optimizer;
}

RateOptions decide_rates(const TrainOptions& options, const Plan& plan) {
  return with_usual(options.rate, usual_training(plan), options.epochs);
}

std::string note_on_rate(const TrainOptions& options, const Plan& plan) {
  const UsualTraining usual = usual_training(plan);
  if (usual.damped) return note_on_damping(options, plan);
  if (options.learning_rate || !usual.lowered()) return {};
  return format(
      "learning rate %g instead of %g: up to %d pending updates do not see "
      "each other (--learning-rate sets another rate%s)",
      usual.rate, kSgdRate, usual.unseen_updates,
      plan.in_flight > 1 ? "; a smaller --in-flight leaves fewer pending" : "");
}

void take_options(const TrainOptions& options, TrainJob& job) {
  job.stage_rate = options.stage_rate.value_or(job.stage_rate);
  job.label_smoothing = options.loss.label_smoothing;
  job.mixes = options.samples.mixes;
  job.target_accuracy = options.target_accuracy;
  job.seed = static_cast<std::uint64_t>(options.seed);
  job.shuffle = options.shuffle != "none";
  job.end_position = std::llround(options.epochs * static_cast<double>(job.dataset_size));
  job.evaluate_every = options.evaluate_every;
  job.checkpoint_every = options.checkpoint_every;
  job.rehearse_preemption = options.rehearse_preemption;
  job.keep_checkpoints = options.keep;
  job.log_every = options.log_every;
  job.exact_checkpoints = options.exact;
  job.build = build_hash();
  job.device = options.device;
  job.transport_path = options.transport_path;
  job.nccl_blocks = options.nccl_blocks;
  job.threads = options.threads;
  job.data_threads = options.samples.data_threads;
  job.run_ahead = options.run_ahead;
  job.timeout_seconds = options.timeout;
  job.notice_seconds = options.notice;
}

std::uint64_t recipe_hash(const TrainOptions& options, const TrainJob& job) {
  // These rates follow from the end of the training.
  const RateOptions rate = decide_rates(options, job.plan);
  const bool of_the_end = rate.schedule == "cosine" || rate.schedule == "polynomial";
  Json recipe{{"optimizer", to_json(job.optimizer)},
              {"rate", to_json(rate)},
              {"label_smoothing", job.label_smoothing},
              {"loss", to_json(job.model.loss)},
              {"freeze", to_json(job.model.freeze)},
              {"seed", job.seed},
              {"shuffle", options.shuffle},
              {"threads", job.threads},
              {"end", of_the_end ? job.end_position : 0}};
  if (optimizer_at_servers(job.plan)) recipe["stage_rate"] = job.stage_rate;
  const SampleOptions& samples = options.samples;
  if (samples.train_transforms || samples.normalize != SampleOptions().normalize) {
    recipe["samples"] = samples.train_transforms.value_or("") + " / " + samples.normalize;
  }
  if (samples.mixes.any()) recipe["mixes"] = to_json(samples.mixes);
  return hash_text(recipe.dump());
}

Resumption decide_resumption(const TrainOptions& options, const TrainJob& job) {
  Resumption resumption;
  if (!options.resume) return resumption;
  if (options.resume == "latest" || options.resume == "auto") {
    find_intact(options, resumption);
  } else {
    resumption.start.checkpoint = *options.resume;
    resumption.checkpoint = read_checkpoint(*options.resume);
  }
  if (!resumption.checkpoint) return resumption;
  const std::string file = resumption.start.checkpoint;
  const Checkpoint& checkpoint = *resumption.checkpoint;
  if (options.resume == "auto" && checkpoint.sampler.consumed >= job.end_position) {
    resumption.ended =
        format("%s is from the end of the training (%lld samples): nothing is left to do",
               file.c_str(), static_cast<long long>(checkpoint.sampler.consumed));
    return resumption;
  }
  const std::optional<std::string> why_not = why_not_exact(checkpoint, job);
  resumption.start =
      why_not ? StartingPoint::empty_pipelines(file, checkpoint.label, checkpoint.sampler.consumed,
                                               counts_of(checkpoint))
              : exact_start(file, checkpoint);
  resumption.how =
      why_not ? "pipelines start empty, since " + *why_not : "bit for bit as if it had not stopped";
  return resumption;
}

}  // namespace hetpipe
