// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launch/train/job.h"

namespace hetpipe {

// Learning rates as people ask for them: positions and lengths in epochs.
struct RateOptions {
  std::string schedule = "constant";
  double warmup = 0;
  std::optional<double> decay{};       // absent: 0.1
  std::vector<double> steps{};         // milestones, or ...
  std::optional<double> every{};       // ... each so many epochs
  std::optional<double> power{};       // absent: 1
  std::optional<double> final_rate{};  // absent: 0
};

// Options that the schedule has no use for, or cannot do without.
void check_rate_options(const RateOptions& options, Problems& problems);

// The same in minibatches of the job's virtual workers, of which each consumes one while all
// consume a round. The job must know its plan, its data, its end and where it starts from.
RateSchedule rate_schedule(const RateOptions& options, const TrainJob& job);

// What only shows against the job: a warm-up beyond the end, a final rate above the first one.
void check_rate_schedule(const RateOptions& options, const TrainJob& job, Problems& problems);

}  // namespace hetpipe
