// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launch/command/options.h"
#include "launch/plan/options.h"
#include "launch/profile/described_model.h"

// --estimate: the commands that read a profile make do with the model, of which nothing was
// measured.
namespace hetpipe {

struct EstimateOptions {
  bool estimate = false;
  std::optional<std::string> sample = {};
  std::optional<int> classes = {};
  LossOptions loss = {};
};

// The rows --estimate, --sample and --classes.
OptionGroup estimate_options(EstimateOptions& options);

// Rows of the loss matter to the estimate alone.
std::vector<std::string> names_of_loss();

// `described`: the model that the estimate is of; `planning`: with the profile that stands in its
// place.
void check_estimate_options(const EstimateOptions& options, const DescribedModel& described,
                            const PlanningOptions& planning, Problems& problems);

// What the model computes, keeps and sends, without times; nothing without --estimate.
std::optional<Profile> estimated_profile(const EstimateOptions& options,
                                         const DescribedModel& described);

}  // namespace hetpipe
