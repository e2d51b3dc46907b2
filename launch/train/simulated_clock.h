// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launch/command/options.h"
#include "runtime/training/job.h"

// The options of a run whose clock is simulated, and what it is simulated of.
namespace hetpipe {

struct ClockOptions {
  std::string clock = "real";               // or "simulated"
  std::optional<std::string> time_of;       // file of a plan; absent: the run's own
  std::optional<std::string> time_cluster;  // absent: the run's own
  std::optional<std::string> time_profile;  // with time_of

  bool simulated() const { return clock == "simulated"; }
};

OptionGroup clock_options(ClockOptions& options);
void check_clock_options(const ClockOptions& options, Problems& problems);

// What the options ask for; the job has its plan, and cluster and profile where they were given.
// Nothing of a real clock. UserError if files cannot be read or do not go together.
std::optional<SimulatedTime> simulated_time(const ClockOptions& options, const TrainJob& job);

}  // namespace hetpipe
