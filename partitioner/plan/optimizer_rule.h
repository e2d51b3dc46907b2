// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// The optimizers, one row each: what planners, ledger, runtime and options ask about them is a
// column here. runtime/pipeline/optimizer.h carries a row out.
namespace hetpipe {

struct OptimizerTraits {
  std::string name;
  std::vector<std::string> slots;  // its state, as checkpoints name it: each a float per parameter
  bool momentum = false;           // has a momentum, maybe Nesterov's
  bool moments = false;            // has betas and an epsilon
  bool alpha = false;              // has an alpha and an epsilon
  bool orthogonal = false;         // directions of a matrix's change are made equally long
  bool usually_damps = false;      // its steps are damped unless weights are predicted
  // Weight decay is no part of the gradient. By default it leaves out parameters of one dimension.
  bool decoupled = false;
  double weight_decay = 0;  // the default
  // Weights are predicted along the last update, kept for that in one float more per parameter.
  bool predicts_by_last_update = false;
};

const std::vector<OptimizerTraits>& optimizers();
std::vector<std::string> optimizer_names();
// UserError for an unknown one.
const OptimizerTraits& optimizer_named(const std::string& name);

// Floats of state per parameter: sgd 0, sgd-momentum, rmsprop and muon 1, the others 2; one more
// where weights are `predicted` and the optimizer keeps its last update for that. UserError on any
// other name.
int optimizer_slots(const std::string& optimizer, bool predicted = false);

}  // namespace hetpipe
