// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launch/command/options.h"
#include "launch/plan/options.h"
#include "partitioner/planners/what_if.h"

// What `hetpipe plan` is asked beside a plan.
namespace hetpipe {

struct PlanQuestions {
  bool explain = false;
  std::vector<std::string> what_if = {};
  std::optional<double> epochs = {};
  std::optional<std::int64_t> dataset_size = {};
  std::optional<std::string> largest = {};
  std::optional<int> global_batch = {};
};

OptionGroup question_options(PlanQuestions& questions);

// Options of the questions that need or exclude others. `has_data`: --data is given.
void check_questions(const PlanQuestions& questions, const PlanningOptions& planning, bool has_data,
                     Problems& problems);

// The pools of --what-if. All that is wrong with them is said before anything is planned.
std::vector<ChangedPool> changed_pools(const PlanQuestions& questions, const PlanRequest& request);

}  // namespace hetpipe
