// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>

namespace hetpipe {

// The page of runs that have ended, into `file`; whether there is one. A failure is a warning on
// standard error, and changes nothing else. Runs whose traces take more than kMostTraceBytes
// together get no page: it would keep the command too long.
inline constexpr std::uintmax_t kMostTraceBytes = 32'000'000;
bool leave_report(std::span<const std::filesystem::path> runs, const std::filesystem::path& file);

}  // namespace hetpipe
