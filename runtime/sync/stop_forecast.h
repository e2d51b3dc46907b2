// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>

#include "partitioner/schedule/wave_rules.h"

namespace hetpipe {

// How long a stop on request takes, from how long the newest waves took: it comes at the end of a
// wave that every virtual worker can still end with (runtime/sync/stop_agreement.h). Seconds are
// those of one clock.
class StopForecast {
 public:
  static constexpr int kRecent = 5;

  void started(double at) { ends_ = {at}; }
  void wave_done(double at);  // all of it, in order

  // Of a wave: the median of the newest kRecent; nothing before there are three.
  std::optional<double> wave_seconds() const;
  // From `now` until so many more waves (at least 1) are done, of which one is in progress.
  std::optional<double> until(Wave waves, double now) const;
  // Waves from a request to the stop, at most: one may just have passed the gate of the wave in
  // progress, and others may be D waves ahead.
  static Wave waves_at_most(const WaveRules& rules);

 private:
  std::deque<double> ends_{};  // of waves, ascending; the first one's start
};

}  // namespace hetpipe
