// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "partitioner/plan/plan.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/counts.h"

// How old the weights of a plan's passes are, counted from the schedule that it runs.
namespace hetpipe {

// Of the virtual workers with so many stages, on equal stages (schedule/counts.h).
struct PlanStaleness {
  int stages = 1;
  // Updates, per stage: SpecTrain's version differences, XPipe's prediction steps for its weights.
  std::vector<int> forward;
  std::vector<int> backward;
  // Where a B takes a whole minibatch: minibatches that it lags, 1 is none (TiMePReSt); else 0.
  int update_sequences = 0;
  bool operator==(const PlanStaleness&) const = default;
};

// At each stage of a pipeline, in the reading of the weights' rule (schedule/counts.h).
std::vector<VersionDifference> steps_ahead(ScheduleRule rule, WeightRule weights,
                                           const ScheduleRequest& request);

// Where weights change between a minibatch's passes and B does not use those of its F. Nothing for
// other rules, or without a pipeline.
std::vector<PlanStaleness> plan_staleness(const Plan& plan);

// A line for each, as text.
std::string staleness_text(const std::vector<PlanStaleness>& staleness);

}  // namespace hetpipe
