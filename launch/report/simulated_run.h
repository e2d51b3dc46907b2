// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/report/reported_run.h"

namespace hetpipe {

// A simulation that kept its events as if it were a run, for the same page. `words`: the command
// that simulates it, without its plan, which is in `plan_file`.
ReportedRun simulated_run(const Plan& plan, const Cluster& cluster, const Profile& profile,
                          Simulation simulation, const std::string& plan_file,
                          std::vector<std::string> words);

}  // namespace hetpipe
