// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "partitioner/planners/global_batch.h"
#include "partitioner/planners/largest_minibatch.h"
#include "partitioner/planners/search.h"

// Answers of `hetpipe plan` beside the plan's own tables, as text and JSON.
namespace hetpipe {

class Json;

// How long epochs take at a plan's pace, without evaluations.
struct EpochsTime {
  double epochs = 0;
  std::int64_t dataset_size = 0;  // samples of one
  double throughput = 0;          // samples/s
  double seconds() const { return epochs * static_cast<double>(dataset_size) / throughput; }
};
std::string epochs_text(const EpochsTime& time);
Json epochs_json(const EpochsTime& time);

// For the plan of a request, whose device types name what is full.
std::string largest_text(const LargestMinibatch& largest, const PlanRequest& request,
                         const Plan& plan);
Json largest_json(const LargestMinibatch& largest);

// The plans of all systems; the first is the one that is written.
std::string batched_text(const std::vector<BatchedPlan>& plans, const PlanRequest& request,
                         int samples);
Json batched_json(const std::vector<BatchedPlan>& plans, int samples);

// What a search considered, how far its plan can be from the best, and which devices it leaves idle
// at what cost.
std::string search_text(const SearchResult& result, const Cluster& cluster);

}  // namespace hetpipe
