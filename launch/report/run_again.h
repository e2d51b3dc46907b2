// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launch/report/reported_run.h"

// Command lines that repeat a run.
namespace hetpipe {

// The run with its own options, and with these in addition; `output`: the new run directory. Of a
// run over MPI with the launcher in front. `plan`: another plan; empty: the run's own. Of a
// simulation the command that simulates it, which has no output.
std::string run_again(const ReportedRun& run, const std::string& output,
                      const std::vector<std::string>& more = {}, const std::string& plan = {});

// A value of the run's config.toml as it stands there; empty: it has none.
std::string config_value(const ReportedRun& run, const std::string& key);

// The text of a file of the run; null where it has none.
const std::string* text_of(const ReportedRun& run, const std::string& name);

}  // namespace hetpipe
