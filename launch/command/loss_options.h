// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "launch/command/options.h"
#include "runtime/model/loss.h"

// What a model learns by, as options say it.
namespace hetpipe {

struct LossOptions {
  std::string name = kAutomaticLoss;
  int ignore_index = -100;
  double label_smoothing = 0;
  std::vector<double> class_weights;
  std::vector<double> auxiliary_weights;
};

// --loss, --label-smoothing, --ignore-index, --class-weights, --auxiliary-weights.
OptionGroup loss_options(LossOptions& options);
LossChoice loss_choice(const LossOptions& options);

}  // namespace hetpipe
