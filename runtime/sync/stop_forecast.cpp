// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/stop_forecast.h"

#include <algorithm>
#include <vector>

namespace hetpipe {
namespace {

constexpr std::size_t kEnough = 3;  // waves

}  // namespace

void StopForecast::wave_done(double at) {
  ends_.push_back(at);
  if (ends_.size() > kRecent + 1) ends_.pop_front();
}

std::optional<double> StopForecast::wave_seconds() const {
  if (ends_.size() <= kEnough) return std::nullopt;
  std::vector<double> seconds;
  for (std::size_t i = 1; i < ends_.size(); ++i) seconds.push_back(ends_[i] - ends_[i - 1]);
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

std::optional<double> StopForecast::until(Wave waves, double now) const {
  const std::optional<double> each = wave_seconds();
  if (!each) return std::nullopt;
  const double begun = std::max(0.0, ends_.back() + *each - now);  // of the wave in progress
  return begun + static_cast<double>(waves - 1) * *each;
}

Wave StopForecast::waves_at_most(const WaveRules& rules) {
  return 2 + (rules.distance < kUnbounded ? rules.distance : 0);
}

}  // namespace hetpipe
