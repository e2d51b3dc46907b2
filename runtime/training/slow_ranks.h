// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/ids.h"

// Which ranks run at a fraction of their own pace. A pure detector: seconds of computation per
// sample in, wave by wave; what has changed out.
//
// A rank's usual pace is the best median of any kRecent waves in a row so far, its slowdown in a
// wave the ratio to that. It is slow when nearly all recent waves (kAgree of kRecent) were slowed
// down kSlow times or more: a wave that takes a hundred times as long is noise, seven of nine are
// not. That is known within nine waves. It has recovered when nearly all were below kRecovered.
//
// Other programs on a machine take the processor from all of its ranks. What they took by the
// scheduler's own account is not part of the seconds (Worker), but caches and memory are shared
// too. So the slowdown of a rank that computes on a machine's processors is taken relative to that
// of the other such ranks there, in the same wave (of their better half, where that was slowed down
// at all): all of them together are not named.
namespace hetpipe {

class SlowRanks {
 public:
  static constexpr int kRecent = 9;
  static constexpr int kAgree = 7;
  static constexpr double kSlow = 3;
  static constexpr double kRecovered = 2;

  // What a rank's pace depends on besides itself: ranks of one machine share its processors. Each
  // GPU is on its own.
  struct Place {
    std::string machine;
    bool on_processors = true;
  };
  explicit SlowRanks(std::vector<Place> places);  // by rank

  struct Change {
    Rank rank;
    bool slow = false;  // or recovered
    double factor = 1;  // median of the recent waves; recovered: the largest of these while slow
    double usual = 0;   // seconds per sample
    Wave first = 0;     // slow: the first of the waves that show it
  };
  // Of a wave: seconds per sample by rank; nothing of a rank that did not play it.
  std::vector<Change> observe(Wave wave, const std::vector<std::optional<double>>& seconds);

  struct Slow {
    Rank rank;
    double factor = 1;  // now
  };
  std::vector<Slow> slow_now() const;

 private:
  struct OfWave {
    Wave wave = 0;
    double seconds = 0;
    double own = 0;  // seconds, without what slowed down the others too
  };
  struct Pace {
    std::deque<OfWave> recent{};
    std::vector<double> own{};      // of the recent ones, ascending; empty: too few
    std::optional<double> usual{};  // seconds
    bool slow = false;
    double factor_then = 1;  // the largest while it was slow
    double factor(int place) const { return own[static_cast<std::size_t>(place)] / *usual; }
  };
  static void add(Pace& pace, const OfWave& newest);
  double slowdown_of_others(std::size_t rank,
                            const std::vector<std::optional<double>>& seconds) const;

  std::vector<Place> places_;
  std::vector<Pace> paces_;
};

}  // namespace hetpipe
