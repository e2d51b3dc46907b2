// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"

namespace hetpipe {

// One line per device type of this build: "cpu: oneDNN 2.6.3", "reference: plain loops",
// "cuda: not part of this build (...)".
std::vector<std::string> known_devices();

// "cpu" (oneDNN) or "reference". UserError for a name that is not known or not built, saying which
// are. `threads` is what one kernel may use; primitives fix it when they are created.
std::unique_ptr<Device> make_device(const std::string& name, int threads);

}  // namespace hetpipe
