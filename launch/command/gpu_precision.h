// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "base/precision.h"

namespace hetpipe {

// --precision of a command with --device, where it was given. UserError where the device, which is
// not "auto", computes in fp32 alone and another precision is asked for.
std::optional<Precision> gpu_precision(const std::string& device,
                                       const std::optional<std::string>& given);

}  // namespace hetpipe
