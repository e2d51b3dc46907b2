// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "launch/report/reported_run.h"

namespace hetpipe {

// Several runs side by side: HTML, a section of the page. Ids of runs are "run0", "run1", ...
std::string comparison_html(std::span<const ReportedRun> runs);

}  // namespace hetpipe
