// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "launch/report/reported_run.h"

// The whole report.
namespace hetpipe {

inline constexpr std::size_t kMostPageBytes = 1'000'000;

// One HTML file that needs no other: of several runs a comparison first, then each run's panels. At
// most kMostPageBytes, for which timelines show fewer single actions and long files their start and
// end; UserError for more runs than fit.
std::string report_page(std::span<const ReportedRun> runs);

}  // namespace hetpipe
