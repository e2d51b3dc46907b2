// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

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

// Where that comes from: the spans in which the rank did something, in order. `share`: which of the
// fields of TimeShares, the first of what it did then.
using UseSpan = std::function<void(double start, double end, std::size_t share)>;
void each_span(const AlignedRank& rank, const UseSpan& use);

}  // namespace hetpipe
