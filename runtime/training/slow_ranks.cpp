// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/slow_ranks.h"

#include <algorithm>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr int kMiddle = SlowRanks::kRecent / 2;
constexpr int kNearlyAllAbove = SlowRanks::kRecent - SlowRanks::kAgree;
constexpr int kNearlyAllBelow = SlowRanks::kAgree - 1;

}  // namespace

SlowRanks::SlowRanks(std::vector<Place> places)
    : places_(std::move(places)), paces_(places_.size()) {}

void SlowRanks::add(Pace& pace, const OfWave& newest) {
  pace.recent.push_back(newest);
  if (pace.recent.size() < kRecent) return;
  if (pace.recent.size() > kRecent) pace.recent.pop_front();
  const auto ascending = [&](double OfWave::*which) {
    std::vector<double> values;
    for (const OfWave& wave : pace.recent) values.push_back(wave.*which);
    std::sort(values.begin(), values.end());
    return values;
  };
  const double median = ascending(&OfWave::seconds)[kMiddle];
  pace.usual = std::min(pace.usual.value_or(median), median);
  pace.own = ascending(&OfWave::own);
}

// Of those whose processors it shares, in this wave: how much the better half was slowed down at
// most, which says how busy those are. 1 where there are none, or all were faster than usual.
double SlowRanks::slowdown_of_others(std::size_t rank,
                                     const std::vector<std::optional<double>>& seconds) const {
  std::vector<double> others;
  for (std::size_t r = 0; r < paces_.size(); ++r) {
    const bool shares = places_[r].on_processors && places_[rank].on_processors &&
                        places_[r].machine == places_[rank].machine;
    if (r != rank && shares && seconds[r] && paces_[r].usual) {
      others.push_back(*seconds[r] / *paces_[r].usual);
    }
  }
  if (others.empty()) return 1;
  std::sort(others.begin(), others.end());
  return std::max(1.0, others[(others.size() - 1) / 2]);
}

std::vector<SlowRanks::Change> SlowRanks::observe(
    Wave wave, const std::vector<std::optional<double>>& seconds) {
  ensure(seconds.size() == paces_.size(), "a pace of each rank");
  std::vector<double> shared;
  for (std::size_t r = 0; r < paces_.size(); ++r) shared.push_back(slowdown_of_others(r, seconds));
  for (std::size_t r = 0; r < paces_.size(); ++r) {
    if (seconds[r]) add(paces_[r], {wave, *seconds[r], *seconds[r] / shared[r]});
  }
  std::vector<Change> changes;
  for (std::size_t r = 0; r < paces_.size(); ++r) {
    Pace& pace = paces_[r];
    if (!seconds[r] || pace.own.empty()) continue;
    const Rank rank{static_cast<int>(r)};
    if (pace.slow) {
      pace.factor_then = std::max(pace.factor_then, pace.factor(kMiddle));
      if (pace.factor(kNearlyAllBelow) >= kRecovered) continue;
      pace.slow = false;
      changes.push_back({rank, false, pace.factor_then, *pace.usual, wave});
    } else if (pace.factor(kNearlyAllAbove) >= kSlow) {
      pace.slow = true;
      pace.factor_then = pace.factor(kMiddle);
      const auto first =
          std::find_if(pace.recent.begin(), pace.recent.end(),
                       [&](const OfWave& one) { return one.own >= kSlow * *pace.usual; });
      changes.push_back({rank, true, pace.factor_then, *pace.usual, first->wave});
    }
  }
  return changes;
}

std::vector<SlowRanks::Slow> SlowRanks::slow_now() const {
  std::vector<Slow> slow;
  for (std::size_t r = 0; r < paces_.size(); ++r) {
    if (paces_[r].slow) slow.push_back({Rank{static_cast<int>(r)}, paces_[r].factor(kMiddle)});
  }
  return slow;
}

}  // namespace hetpipe
