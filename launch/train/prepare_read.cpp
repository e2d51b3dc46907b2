// SPDX-License-Identifier: Apache-2.0
// Files, data, the model.
#include <algorithm>
#include <filesystem>

#include "base/text.h"
#include "launch/command/said_of.h"
#include "launch/train/ground.h"
#include "launch/train/measured_model.h"
#include "launch/train/prepare_parts.h"
#include "runtime/data/mixing.h"
#include "runtime/model/zoo.h"
#include "runtime/training/run_directory.h"
#include "runtime/training/training_data.h"

namespace hetpipe {
namespace {

namespace fs = std::filesystem;

constexpr int kMeasuredMinibatch = 32;

// A run that is resumed in its own directory needs none of its files named again.
TrainOptions with_files_of_the_run(TrainOptions options) {
  if (!options.resume || (!options.output && !options.run_folder)) return options;
  const fs::path folder = options.run_folder ? *options.run_folder : *options.output;
  const auto found = [&](const char* name) -> std::optional<std::string> {
    return fs::exists(folder / name) ? std::optional((folder / name).string()) : std::nullopt;
  };
  // Another plan, or devices that are measured now, may go with another profile.
  if (!options.planning.profile && !options.plan && !on_allocation(options)) {
    options.planning.profile = found("profile.toml");
  }
  if (!options.plan && !options.planning.cluster) {
    options.plan = found("plan.toml");
    options.planning.cluster = found("cluster.toml");
  }
  return options;
}

// The devices of this launch stand in place of a cluster file.
TrainOptions on_ground(TrainOptions options, const Ground& ground) {
  options.planning.cluster.reset();
  if (options.planning.servers.empty()) options.planning.servers = ground.free_nodes;
  return options;
}

// A plan file, with what the options change of it.
Plan planned(const std::string& file, const PlanningOptions& options, const Cluster& cluster,
             Log& log) {
  Plan plan = load_plan_of(file, options);
  const PrecisionChoice planned_for = plan.precision;
  override_plan(options, cluster, plan);
  if (plan.precision != planned_for) {
    log.warning(
        format("--precision %s: %s was planned for %s, and its times hold for that. Plan "
               "with the same --precision.",
               to_string(plan.precision).c_str(), file.c_str(), to_string(planned_for).c_str()));
  }
  return plan;
}

void read_files(const TrainOptions& options, const Ground* ground, TrainJob& job, Log& log) {
  if (ground != nullptr) {
    job.cluster = ground->cluster;
    job.on_allocation = true;
    if (!options.planning.profile) job.profile = ground->profile;
  }
  if (options.planning.cluster) job.cluster = load_cluster(*options.planning.cluster);
  const Cluster cluster = job.cluster.value_or(Cluster{});
  precision_of(options.planning, cluster);  // a wrong device type, before anything is measured
  if (options.plan) job.plan = planned(*options.plan, options.planning, cluster, log);
  if (options.planning.profile) {
    job.profile = load_profile_of(options.planning, cluster, options.plan ? &job.plan : nullptr);
  }
  if (!options.plan && !job.cluster) {
    throw UserError("--cluster",
                    "is missing (there is no --plan either). Give --plan FILE, or --cluster FILE "
                    "to have one made.");
  }
}

ModelChoice model_of(const TrainOptions& options, const TrainJob& job) {
  ModelChoice choice = choice_of(options);
  choice.name = options.model.value_or(options.plan  ? job.plan.model
                                       : job.profile ? job.profile->model
                                                     : "");
  if (choice.name.empty()) {
    throw UserError("--model",
                    "is missing (neither plan nor profile names one). Give --model NAME; known: " +
                        join(model_names(), ", ") + ".");
  }
  const std::string name = model_name(choice);
  if (options.plan && !job.plan.model.empty() && job.plan.model != name) {
    throw UserError(*options.plan, "is a plan of model '" + job.plan.model + "' (--model says '" +
                                       name + "'). Leave --model out, or plan that model.");
  }
  return choice;
}

// And the model for it.
Model read_data(const TrainOptions& options, TrainJob& job, Log& log) {
  const std::string& data = *options.data;
  const TrainingData of{job.model, data, options.test_share,
                        image_rules(options.samples, options.seed)};
  const Dataset train = open_training_data(of, Split::train, Parts::both);
  if (!train.remark.empty()) log.line(train.remark);
  job.sample = Shape(train.sample_shape());
  job.classes = train.classes;
  job.vocabulary = train.vocabulary;
  job.class_names = train.class_names;
  job.dataset_size = train.size;
  job.dataset_fingerprint = train.fingerprint;
  job.model.loss.skips = train.skips;
  if (has_test_samples(of)) {
    const Dataset test = open_training_data(of, Split::test, Parts::both);
    job.test_size = test.size;
    job.test_fingerprint = test.fingerprint;
    job.model.loss.skips |= test.skips;
    if (test.sample_shape() != train.sample_shape() || test.classes > train.classes) {
      throw UserError(data,
                      "has test samples of another shape or more classes than its training "
                      "samples. Give data sets that belong together.");
    }
  } else {
    log.line(data +
             " holds no test samples: nothing will be evaluated (--test-share keeps some for it)");
  }
  const std::string named_by = options.model  ? "--model"
                               : options.plan ? *options.plan
                                              : options.planning.profile.value_or("");
  Model model = said_of(named_by, [&] { return make_model_for(job.model, train); });
  if (const MixRules& mixes = options.samples.mixes; mixes.any()) {
    check_mixes(train, mixes);
    Model(model).mix_labels(mixes.option());
  }
  if (model.initial() != nullptr && !options.resume) {
    const std::string remark = model.initial()->remark();
    if (!remark.empty()) log.line(remark);
  }
  if (train.mask_token) {
    log.line(
        format("%s fills in masked tokens: %lld of the %d in each sample, which loss and "
               "accuracy are of",
               model.name().c_str(), static_cast<long long>(model.predictions_per_sample()),
               train.tokens));
  }
  return model;
}

// By the first rank, on what emulated kinds run on where there are some.
Profile measure_here(const TrainOptions& options, const Model& model,
                     const std::optional<Cluster>& cluster, Log& log) {
  const int minibatch = options.planning.minibatch.value_or(kMeasuredMinibatch);
  ModelMeasurer by{
      .batches = {std::max(1, minibatch / options.planning.micro_batches.value_or(1))}};
  by.on_cpu = cluster &&
              std::any_of(cluster->kinds.begin(), cluster->kinds.end(), [](const DeviceKind& kind) {
                return kind.emulate && kind.emulate->of == kEmulatingDevice;
              });
  if (by.on_cpu) by.kind = kEmulatingDevice;
  log.line("no --profile given: measuring " + model.name() + " on this machine");
  MeasuredModel measured = measure_model(options, model, by);
  log.line(measured.note);
  return std::move(measured.profile);
}

}  // namespace

Given read_given(const TrainOptions& asked, const Ground* ground, Log& log) {
  TrainOptions options = with_files_of_the_run(asked);
  if (ground != nullptr) options = on_ground(std::move(options), *ground);
  if (options.output) {
    RunDirectory::check(*options.output, options.resume ? RunStart::resume : RunStart::fresh);
  }
  TrainJob job;
  read_files(options, ground, job, log);
  job.model = model_of(options, job);
  Model model = read_data(options, job, log);
  const bool of_its_own = options.clock.simulated() && !options.clock.time_of;
  if (!job.profile &&
      (!options.plan || of_its_own || (job.cluster && job.cluster->emulated()))) {
    job.profile = measure_here(options, model, job.cluster, log);
  }
  const std::string plan_file = options.plan.value_or("the plan made");
  const std::string profile_file = options.planning.profile.value_or("the measured profile");
  return {std::move(options), std::move(job), std::move(model), plan_file, profile_file};
}

}  // namespace hetpipe
