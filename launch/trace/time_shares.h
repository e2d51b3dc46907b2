// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launch/trace/aligned.h"

// Where a rank's time went.
namespace hetpipe {

// Seconds; together as long as the run. What happens at once counts once, as the first of these
// that does: a message that comes while the device computes costs nothing.
struct TimeShares {
  double computing = 0;   // F B W R U
  double evaluation = 0;  // E
  double checkpoint = 0;  // C
  double server = 0;      // P L: pushes, and waits for weights
  double receiving = 0;   // V: waits for other stages
  double sending = 0;     // S
  double idle = 0;        // none of these
};
TimeShares time_shares(const AlignedRank& rank, double seconds);

}  // namespace hetpipe
