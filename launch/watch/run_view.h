// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launch/watch/watched_run.h"

namespace hetpipe {

// The run as lines of plain text, none longer than `width` and at most `height` of them (absent: as
// many as it takes). Where not all ranks fit, those that are slow or wait least come first.
std::vector<std::string> view_of(const WatchedRun& run, double silent_seconds, int width,
                                 std::optional<int> height);

}  // namespace hetpipe
