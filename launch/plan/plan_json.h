// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/plan/answers.h"
#include "launch/plan/feed.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/plan.h"
#include "partitioner/plan/unmeasured.h"
#include "partitioner/planners/explain.h"
#include "partitioner/planners/search.h"
#include "partitioner/planners/what_if.h"

namespace hetpipe {

// The plan as one JSON document, with the keys of the plan file (docs/files.md), `predicted`
// included, and the answers about it. Keys only for what exists: `what_if`, an array of the answers
// for the pool as it is and each changed one, `explain`, `search`, `ledger`: of each stage its
// lines in bytes, on the replica that fills its memory most; `feed`; `epochs`, `largest_minibatch`,
// `global_batch`; `version_differences`
// (plan/staleness.h); and always `unmeasured`, of the plan's times.
struct PlanNotes {
  std::vector<UnmeasuredTimes> unmeasured;
  std::vector<Answer> answers;
  std::optional<Explanation> explanation;
  std::optional<SearchResult> search;
  std::optional<PlannedFeed> feed;
  std::optional<EpochsTime> epochs = {};
  std::optional<LargestMinibatch> largest = {};
  std::vector<BatchedPlan> batched = {};  // at the global batch
  int global_batch = 0;
  std::vector<StageNeed> ledger;  // of all stages, virtual worker after virtual worker
};
std::string plan_json(const Plan& plan, const PlanNotes& notes);

}  // namespace hetpipe
