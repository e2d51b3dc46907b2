// SPDX-License-Identifier: Apache-2.0
#include "launch/command/gpu_precision.h"

#include "base/error.h"
#include "kernels/devices.h"

namespace hetpipe {

std::optional<Precision> gpu_precision(const std::string& device,
                                       const std::optional<std::string>& given) {
  if (!given) return std::nullopt;
  if (host_reaches(device) && *given != "fp32") {
    throw UserError("--precision", *given + " (device " + device +
                                       " computes in fp32). Leave it out, or give --device cuda.");
  }
  return precision_named(*given);
}

}  // namespace hetpipe
