// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/doctor/checks.h"
#include "launch/doctor/options.h"

namespace hetpipe {

// Reads the files that the options name, one after the other, asks Slurm if --cluster requires it,
// and collects all their problems.
PlannedRun read_planned_run(const DoctorOptions& options,
                            const std::vector<std::string>& host_of_rank);

}  // namespace hetpipe
