// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace hetpipe {

// Where what was measured once is kept for later runs of this user on this machine: $HETPIPE_CACHE,
// or hetpipe/ in $XDG_CACHE_HOME or ~/.cache. Made where it is missing. Empty where there is no
// such place, or it cannot be written: nothing is kept then.
std::filesystem::path cache_folder();

// The file there in which GPUs keep their execution plans; empty: nothing is kept.
std::string plan_cache();

}  // namespace hetpipe
