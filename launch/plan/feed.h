// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launch/data/feed.h"
#include "partitioner/plan/plan.h"

namespace hetpipe {

class Json;

// Whether this machine reads data as fast as a plan trains on them.
struct PlannedFeed {
  std::string data;
  DataSeen seen{};
  double taken = 0;  // samples/s, by the rank of a first stage that takes the most
  int cores = 1;     // of this machine
  bool suffices() const { return hetpipe::suffices(seen.rate, taken); }
  int threads_needed() const { return threads_for(seen.rate, taken); }
};
// Reads for a second, with the threads of the options.
PlannedFeed planned_feed(const DataOptions& options, const Plan& plan);

// One line, and keys `data`, `samples_per_second`, `threads`, `taken`, `suffices`, `threads_needed`
// (null: no number of threads), `memory`, or `data` and `not_measured`.
std::string feed_text(const PlannedFeed& feed);
Json feed_json(const PlannedFeed& feed);

}  // namespace hetpipe
