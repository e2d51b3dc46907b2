// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"

namespace hetpipe {

inline constexpr const char* kAutomaticLoss = "auto";
inline constexpr const char* kOwnLoss = "output";
// Whatever loss fits: for those who need a network's weights and nothing else.
inline constexpr const char* kAnyLoss = "any";
std::vector<std::string> loss_names();  // "auto", "cross-entropy", "mse", ...

// What a network learns by. Of a built-in one: cross-entropy.
struct LossChoice {
  std::string name = kAutomaticLoss;  // auto: cross-entropy, or the model's own where it has one
  int ignore_index = -100;            // a class label that is none (as PyTorch's)
  bool skips = false;                 // the data hold such labels
  std::vector<double> class_weights = {};  // one of each class; empty: 1
  // Of an exported network's further outputs, in order: weight of each one's loss, of the same kind
  // and labels as that of the first. Those beyond have none.
  std::vector<double> auxiliary = {};
};
constexpr auto fields_of(Type<LossChoice>) {
  return fields<&LossChoice::name, &LossChoice::ignore_index, &LossChoice::skips,
                &LossChoice::class_weights, &LossChoice::auxiliary>;
}

}  // namespace hetpipe
