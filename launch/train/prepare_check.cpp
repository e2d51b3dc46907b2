// SPDX-License-Identifier: Apache-2.0
// Whether everything fits together.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/text.h"
#include "launch/command/output_file.h"
#include "launch/command/said_of.h"
#include "launch/train/prepare_parts.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/optimizer_rule.h"
#include "partitioner/plan/system.h"
#include "runtime/pipeline/parameter_rules.h"
#include "runtime/training/checkpoint.h"
#include "runtime/training/rates.h"

namespace hetpipe {
namespace {

// A plan made elsewhere, or by hand, may not fit: better said now than by a rank in the middle of
// its work.
void check_memory(const TrainJob& job, const std::string& file, Problems& problems) {
  if (!job.cluster || !job.profile) return;
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    std::set<DeviceName> said;  // an interleaved schedule's device has several stages
    for (std::size_t k = 0; k < job.plan.virtual_workers[i].stages.size(); ++k) {
      const StageNeed need =
          fullest_replica(job.plan, *job.cluster, *job.profile,
                          VirtualWorkerId{static_cast<int>(i)}, StageId{static_cast<int>(k)});
      if (need.ledger.total() <= need.memory || !said.insert(need.device).second) continue;
      std::vector<std::string> lines;
      for (const LedgerLine& line : need.ledger.lines) {
        lines.push_back(line.name + " " + format_bytes(static_cast<double>(line.bytes)));
      }
      problems.add(file,
                   format("virtual worker %zu, stage %zu needs %s on %s, which has %s (%s). "
                          "Use a smaller minibatch, fewer minibatches in flight, or another "
                          "partition.",
                          i, k, format_bytes(static_cast<double>(need.ledger.total())).c_str(),
                          to_string(need.device).c_str(),
                          format_bytes(static_cast<double>(need.memory)).c_str(),
                          join(lines, ", ").c_str()));
    }
  }
}

// What has no effect with the plan's optimizer.
void check_optimizer(const TrainOptions& options, const OptimizerOptions& optimizer,
                     const System& system, Problems& problems) {
  const OptimizerTraits& traits = optimizer_named(optimizer.name);
  const auto useless = [&](bool given, const char* option, const char* users) {
    if (!given) return;
    problems.add(option, "has no effect with optimizer " + optimizer.name +
                             " (which does not use it). Leave it out, or give --optimizer " +
                             users + ".");
  };
  useless(options.momentum && !traits.momentum, "--momentum", "sgd-momentum or muon");
  useless(options.nesterov && !traits.momentum, "--nesterov", "sgd-momentum");
  if (options.nesterov && traits.orthogonal) {
    problems.add("--nesterov", "has no effect with optimizer " + optimizer.name +
                                   " (it always has Nesterov's momentum). Leave it out.");
  }
  useless(!options.betas.empty() && !traits.moments, "--betas", "adam, adamw or lamb");
  useless(options.nu.has_value() && !traits.moments, "--nu", "adam, adamw or lamb");
  useless(options.epsilon.has_value() && !traits.moments && !traits.alpha, "--epsilon",
          "adam, adamw, lamb or rmsprop");
  useless(options.alpha.has_value() && !traits.alpha, "--alpha", "rmsprop");
  if (options.stage_rate && !hetpipe::traits(system.sync).steps) {
    problems.add("--stage-rate", "has no effect (the plan's sync is '" +
                                     std::string(to_string(system.sync)) +
                                     "', the stages have the optimizer). Leave it out, or plan "
                                     "with --sync " +
                                     std::string(to_string(SyncRule::server_step)) + ".");
  }
  const WeightTraits& weights = hetpipe::traits(system.weights);
  if (optimizer.damping > 0 && weights.predicts() && !traits.predicts_by_last_update) {
    problems.add("--damping", "cannot be combined with weights '" + std::string(weights.name) +
                                  "' and optimizer " + optimizer.name +
                                  " (predictions go along its state, which is not damped). Leave "
                                  "it out, or give --optimizer sgd.");
  }
  if (options.damped_directions && optimizer.damping == 0) {
    problems.add("--damped-directions",
                 "has no effect without --damping (which says how much smaller they become). Leave "
                 "it out, or give a --damping above 0.");
  }
  if (options.nesterov && traits.momentum && optimizer.momentum == 0) {
    problems.add("--nesterov",
                 "has no effect with --momentum 0 (there is no velocity to look along). Leave it "
                 "out, or give a --momentum above 0.");
  }
  if (options.decay_of && optimizer.weight_decay == 0) {
    problems.add("--decay-of",
                 "has no effect with a weight decay of 0 (nothing decays). Give --weight-decay W, "
                 "or leave it out.");
  }
}

// Every pattern of --rate-of covers a parameter.
void check_groups(const std::vector<RateOf>& rates, const Model& model, Problems& problems) {
  std::vector<std::string> names;
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  for (const ParameterEntry& entry : layout.entries()) {
    if (entry.is_own()) names.push_back(entry.name);
  }
  for (const RateOf& of : rates) {
    const bool used = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return covers(of.pattern, name);
    });
    if (used) continue;
    const std::string near = nearest(of.pattern, names);
    problems.add("--rate-of", "'" + of.pattern + "' matches no parameter of model '" +
                                  model.name() + "' (the nearest is " +
                                  (near.empty() ? names.front() : near) +
                                  "). Give the name of a parameter or a module, with * and ? for "
                                  "what varies.");
  }
}

void check_length(const TrainJob& job, double epochs, Problems& problems) {
  if (job.end_position < 1) {
    problems.add("--epochs", format("%g of %lld samples is less than one sample. Raise it.", epochs,
                                    static_cast<long long>(job.dataset_size)));
  }
}

void check_minibatches(const TrainJob& job, const std::string& file, Problems& problems) {
  for (std::size_t i = 0; i < job.plan.virtual_workers.size(); ++i) {
    const int minibatch = job.plan.minibatch_of(VirtualWorkerId{static_cast<int>(i)});
    if (minibatch <= job.dataset_size) continue;
    problems.add(file, format("virtual worker %zu: minibatch = %d (the data set has %lld training "
                              "samples). Use a smaller minibatch.",
                              i, minibatch, static_cast<long long>(job.dataset_size)));
  }
}

}  // namespace

namespace {

// Of a sample, what goes into this layer of the profile, in values; 0: the profile does not say.
std::int64_t values_into(const Profile& profile, int layer) {
  return std::llround(profile.layers[static_cast<std::size_t>(layer)].input_bytes / sizeof(float));
}

// The same layers for samples of another size, or for other classes, have other costs.
void check_profile_is_of_data(const Given& given) {
  const Profile& profile = *given.job.profile;
  const Model& model = given.model;
  int reader = 0;
  while (model.layer(reader).inputs.empty() || model.layer(reader).inputs.front() != kSamples) {
    ++reader;
  }
  const int loss = model.layer_count() - 1;
  const std::int64_t values = values_into(profile, reader);
  const bool one_loss = std::holds_alternative<SoftmaxCrossEntropy>(model.layer(loss).spec);
  const std::int64_t classes =
      one_loss ? values_into(profile, loss) / model.labels_per_sample() : 0;
  const std::string sample = to_string(model.sample_shape());
  const std::string measure = format(
      "Measure it on these data: hetpipe profile --model %s --data %s; or leave --profile "
      "and --plan out, and give --cluster.",
      model.name().c_str(), given.options.data->c_str());
  Problems problems;
  if (values > 0 && values != model.sample_shape().elements()) {
    problems.add(given.profile_file,
                 format("is of samples of %lld values (those of %s are %s, %lld values). %s",
                        static_cast<long long>(values), given.options.data->c_str(), sample.c_str(),
                        static_cast<long long>(model.sample_shape().elements()), measure.c_str()));
  } else if (classes > 0 && classes != model.classes()) {
    problems.add(given.profile_file,
                 format("is of %lld classes (%s has %d). %s", static_cast<long long>(classes),
                        given.options.data->c_str(), model.classes(), measure.c_str()));
  }
  problems.throw_if_any();
}

}  // namespace

void check_monitored_files(const TrainOptions& options) {
  Problems problems;
  if (options.metrics) check_output_file("--metrics", *options.metrics, problems);
  if (options.tensorboard) check_output_folder("--tensorboard", *options.tensorboard, problems);
  problems.throw_if_any();
}

void check_profile(const Given& given) {
  if (!given.job.profile) return;
  const Profile& profile = *given.job.profile;
  const Model& model = given.model;
  bool same = static_cast<int>(profile.layers.size()) == model.layer_count();
  for (int l = 0; same && l < model.layer_count(); ++l) {
    same = profile.layers[static_cast<std::size_t>(l)].name == model.layer(l).name;
  }
  if (same) {
    check_profile_is_of_data(given);
    return;
  }
  throw UserError(given.profile_file,
                  format("the profile of '%s' has different layers from model '%s' (%zu and %d). "
                         "Measure this model: hetpipe profile "
                         "--model %s.",
                         profile.model.c_str(), model.name().c_str(), profile.layers.size(),
                         model.layer_count(), model.name().c_str()));
}

void check_plan_of(const TrainJob& job, const Given& given) {
  check_plan(job.plan, given.plan_file, job.cluster ? &*job.cluster : nullptr,
             given.model.layer_count());
  Problems problems;
  said_of(given.plan_file, [&] {
    check_playable(job.plan, problems);
    problems.throw_if_any();
  });
  check_minibatches(job, given.plan_file, problems);
  problems.throw_if_any();
  said_of(given.profile_file, [&] { check_memory(job, given.plan_file, problems); });
  problems.throw_if_any();
}

void check_training(const TrainJob& job, const Given& given, const Resumption& resumption) {
  Problems problems;
  check_optimizer(given.options, job.optimizer, composition(job.plan), problems);
  check_groups(job.optimizer.rates, given.model, problems);
  if (given.options.clip_norm) {
    const std::string why = why_not_clip(job.optimizer.clipping.scope, composition(job.plan));
    if (!why.empty()) problems.add("--clip-scope", why);
  }
  if (job.target_accuracy && job.test_size == 0) {
    problems.add("--target-accuracy", "cannot be reached (" + *given.options.data +
                                          " holds no test samples). Leave it out, or give data "
                                          "with a test set.");
  } else if (job.target_accuracy && !given.model.predicts_classes()) {
    problems.add("--target-accuracy", "cannot be reached (model '" + given.model.name() +
                                          "' learns numbers, not classes). Leave it out.");
  }
  if (resumption.checkpoint) {
    check_resumable(*resumption.checkpoint, resumption.start.checkpoint, job, given.model,
                    problems);
  }
  check_length(job, given.options.epochs, problems);
  check_rate_schedule(decide_rates(given.options, job.plan), job, problems);
  problems.throw_if_any();
}

}  // namespace hetpipe
