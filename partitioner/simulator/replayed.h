// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"

namespace hetpipe {

// What a replay took from where.
struct Replayed {
  Minibatch minibatches = 0;              // of each virtual worker
  double seconds = 0;                     // from the start to the end of the last action
  std::int64_t recorded = 0;              // times of the file
  std::int64_t medians = 0;               // of actions behind the recorded minibatches
  std::vector<std::string> of_profile{};  // kinds of which the file has no row
  std::int64_t rest = 0;                  // rows of actions that follow from the others
};

}  // namespace hetpipe
