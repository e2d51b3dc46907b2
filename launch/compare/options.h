// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/command/options.h"
#include "launch/plan/options.h"

namespace hetpipe {

struct CompareOptions {
  PlanningOptions planning;  // only cluster and profile
  std::optional<std::string> recipe;
  std::optional<std::string> model;
  std::optional<std::string> data;
  std::optional<std::string> output;
  std::vector<std::string> systems;
  std::vector<std::string> plans;  // files; instead of systems

  double epochs = 1;
  std::optional<double> target_accuracy;
  int evaluations = 4;               // of an epoch
  std::optional<std::string> clock;  // of hetpipe train
  std::vector<int> seeds{1};
  std::vector<std::string> learning_rates;  // "R", or "NAME=R" for one of them
  std::vector<std::string> of_one;          // "NAME:OPTION=VALUE" of hetpipe train
  bool json = false;
  std::vector<std::string> train_words;  // behind "--", for all
};

OptionTable compare_option_table(CompareOptions& options);
void check_compare_options(const CompareOptions& options, Problems& problems);

}  // namespace hetpipe
