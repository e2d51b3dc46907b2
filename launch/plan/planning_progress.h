// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

namespace hetpipe {

// Shows on standard error what a planner does and for how long it has, for a pool of so many
// devices: on a terminal in a line that is redrawn and cleared at the end, elsewhere (in a batch
// job's log) a line every ten seconds, and for a thousand devices or more one at the start.
std::function<void(const std::string&)> planning_progress(std::size_t devices);

}  // namespace hetpipe
