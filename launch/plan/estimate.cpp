// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/estimate.h"

#include "runtime/pipeline/profiled_layers.h"

namespace hetpipe {
namespace {

// Of --sample, --classes and the loss, those that were given.
std::vector<std::string> given_without_estimate(const EstimateOptions& options) {
  const EstimateOptions usual;
  const LossOptions &loss = options.loss, &none = usual.loss;
  std::vector<std::string> names;
  for (const auto& [given, name] :
       {std::pair(options.sample.has_value(), "sample"),
        std::pair(options.classes.has_value(), "classes"),
        std::pair(loss.name != none.name, "loss"),
        std::pair(loss.label_smoothing != none.label_smoothing, "label-smoothing"),
        std::pair(loss.ignore_index != none.ignore_index, "ignore-index"),
        std::pair(!loss.class_weights.empty(), "class-weights"),
        std::pair(!loss.auxiliary_weights.empty(), "auxiliary-weights")}) {
    if (given) names.push_back(std::string("--") + name);
  }
  return names;
}

}  // namespace

OptionGroup estimate_options(EstimateOptions& options) {
  OptionGroup group{
      "Without a profile",
      {flag_option("estimate", options.estimate,
                   "Instead of --profile: times from what every layer of --model computes, keeps "
                   "and sends, for device types whose peaks are known. Nothing is measured; "
                   "hetpipe profile --estimate writes the same to a file.")}};
  for (Option& option : sample_shape_options(options.sample, options.classes)) {
    group.options.push_back(std::move(option));
  }
  return group;
}

std::vector<std::string> names_of_loss() {
  LossOptions loss;
  std::vector<std::string> names;
  for (const Option& option : loss_options(loss).options) names.push_back(option.name);
  return names;
}

void check_estimate_options(const EstimateOptions& options, const DescribedModel& described,
                            const PlanningOptions& planning, Problems& problems) {
  if (!options.estimate) {
    if (!planning.profile) {
      problems.add("--profile",
                   "is missing. Give --profile FILE, or --estimate and --model NAME to do without "
                   "measured times.");
    }
    for (const std::string& name : given_without_estimate(options)) {
      problems.add(name,
                   "has no effect without --estimate (the profile is of a model that is made "
                   "already). Leave it out.");
    }
    return;
  }
  for (const auto& [given, name] :
       {std::pair(planning.profile.has_value(), "--profile"),
        std::pair(planning.profile_device.has_value(), "--profile-device"),
        std::pair(planning.profile_batch.has_value(), "--profile-batch")}) {
    if (!given) continue;
    problems.add(name,
                 "cannot be combined with --estimate (which stands in the place of a "
                 "profile). Leave one out.");
  }
  if (described.name) return check_described_model(described, problems);
  problems.add("--model",
               "is missing (--estimate is of a model). Give the name of a built-in model, or the "
               "folder of an exported one.");
}

std::optional<Profile> estimated_profile(const EstimateOptions& options,
                                         const DescribedModel& described) {
  if (!options.estimate) return std::nullopt;
  return unmeasured_profile(make_described_model(described));
}

}  // namespace hetpipe
