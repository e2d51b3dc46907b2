// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/simt.h"

namespace hetpipe::cuda {

// A token comes as a float: its number, or -1 where it is outside [0, vocabulary) or a NaN.
HETPIPE_DEVICE std::int64_t token_of(float id, std::int64_t vocabulary) {
  return id >= 0 && id < static_cast<float>(vocabulary) ? static_cast<std::int64_t>(id) : -1;
}

}  // namespace hetpipe::cuda
