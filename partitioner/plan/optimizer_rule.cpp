// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/optimizer_rule.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {

const std::vector<OptimizerTraits>& optimizers() {
  static const std::vector<std::string> moments{"first_moment", "second_moment"};
  static const std::vector<OptimizerTraits> rows{
      {.name = "sgd", .slots = {}, .predicts_by_last_update = true},
      {.name = "sgd-momentum", .slots = {"velocity"}, .momentum = true},
      {.name = "rmsprop",
       .slots = {"second_moment"},
       .alpha = true,
       .usually_damps = true,
       .predicts_by_last_update = true},
      {.name = "adam", .slots = moments, .moments = true, .usually_damps = true},
      {.name = "adamw", .slots = moments, .moments = true, .decoupled = true, .weight_decay = 0.01},
      {.name = "lamb",
       .slots = moments,
       .moments = true,
       .decoupled = true,
       .weight_decay = 0.01,
       .predicts_by_last_update = true},
      {.name = "muon",
       .slots = {"velocity"},
       .momentum = true,
       .orthogonal = true,
       .usually_damps = true,
       .decoupled = true,
       .weight_decay = 0.1,
       .predicts_by_last_update = true},
  };
  return rows;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerTraits& row : optimizers()) names.push_back(row.name);
  return names;
}

const OptimizerTraits& optimizer_named(const std::string& name) {
  const auto& rows = optimizers();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const OptimizerTraits& row) { return row.name == name; });
  if (found == rows.end()) {
    throw UserError("optimizer",
                    unknown("optimizer", name, optimizer_names()) + ". Choose a known one.");
  }
  return *found;
}

int optimizer_slots(const std::string& optimizer, bool predicted) {
  const OptimizerTraits& row = optimizer_named(optimizer);
  const bool keeps_update = predicted && row.predicts_by_last_update;
  return static_cast<int>(row.slots.size()) + (keeps_update ? 1 : 0);
}

}  // namespace hetpipe
