// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <optional>

#include "kernels/cuda/module.h"

namespace hetpipe {

// Where what was measured once is kept for later runs of this user on this machine: $HETPIPE_CACHE,
// or hetpipe/ in $XDG_CACHE_HOME or ~/.cache. Made where it is missing. Empty where there is no
// such place, or it cannot be written: nothing is kept then.
std::filesystem::path cache_folder();

// A GPU whose execution plans are kept there.
GpuOptions gpu_options(int index, std::optional<Precision> precision);

}  // namespace hetpipe
