// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>

namespace hetpipe {

// report.html in the directory of a run that has ended. A failure is a warning on standard error,
// and changes nothing else. Runs whose traces take more than kMostTraceBytes get no page: it would
// keep the command too long.
inline constexpr std::uintmax_t kMostTraceBytes = 32'000'000;
void leave_report(const std::filesystem::path& run);

}  // namespace hetpipe
