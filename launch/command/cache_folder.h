// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace hetpipe {

// Where measurements are cached for later runs of this user on this machine: $HETPIPE_CACHE,
// or hetpipe/ in $XDG_CACHE_HOME or ~/.cache. Created if missing. Empty if there is no
// such place, or it cannot be written: then nothing is cached.
std::filesystem::path cache_folder();

// The file there that caches execution plans of GPUs; empty: nothing is cached.
std::string plan_cache();

}  // namespace hetpipe
