// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "launch/command/options.h"
#include "launch/report/browser_simulator.h"
#include "launch/report/reported_run.h"

// The whole report.
namespace hetpipe {

inline constexpr std::size_t kMostPageBytes = 1'000'000;

// One HTML file that needs no other: of several runs a comparison first, then each run's panels. At
// most kMostPageBytes, for which timelines show fewer single actions and long files their start and
// end; UserError for more runs than fit. With a simulator it has sliders that ask it.
std::string report_page(std::span<const ReportedRun> runs,
                        const std::optional<BrowserSimulator>& simulator = {});

// The row --with-simulator of commands that write a page.
Option with_simulator_option(bool& value);

}  // namespace hetpipe
