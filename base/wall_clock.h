// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace hetpipe {

// The time of day, for what other programs and machines read: seconds since 1970. Times within a
// run are of base/time.h.
inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace hetpipe
