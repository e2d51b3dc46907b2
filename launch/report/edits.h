// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/report/device_time.h"
#include "launch/report/reported_run.h"
#include "partitioner/planners/explain.h"

// What single edits of a run would give, by the simulator with the times that the run measured.
namespace hetpipe {

struct RunEdit {
  std::string what;      // "set clock_distance = 1"
  std::string commands;  // lines for a shell that run it
  double relative = 0;   // of what the planner's objective makes of the samples/s
  double relative_throughput = 0;
};

struct RunAdvice {
  Explanation explanation;       // of the plan with the measured times
  double throughput = 0;         // samples/s of the plan, simulated with the measured times
  std::vector<RunEdit> edits{};  // those that can be made, best first
};

// Nothing, with the reason in `why_not`, where the run has no profile or cluster, or its plan
// cannot be simulated.
std::optional<RunAdvice> advise(const ReportedRun& run, const std::vector<DeviceTime>& times,
                                std::string& why_not);

}  // namespace hetpipe
