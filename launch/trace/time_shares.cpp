// SPDX-License-Identifier: Apache-2.0
#include "launch/trace/time_shares.h"

#include <algorithm>
#include <array>

#include "launch/trace/event_kind.h"

namespace hetpipe {
namespace {

constexpr std::array kShares{&TimeShares::computing,  &TimeShares::evaluation,
                             &TimeShares::checkpoint, &TimeShares::server,
                             &TimeShares::receiving,  &TimeShares::sending};

std::size_t share_of(const EventKind& kind) {
  if (kind.kind == ActionKind::evaluate) return 1;
  if (kind.kind == ActionKind::checkpoint) return 2;
  switch (kind.track) {
    case Track::computes:
      return 0;
    case Track::server:
      return 3;
    case Track::receives:
      return 4;
    case Track::sends:
      return 5;
  }
  return 0;
}

struct Step {
  double when = 0;
  std::size_t share = 0;
  int more = 0;  // 1: begins, -1: ends
};

}  // namespace

void each_span(const AlignedRank& rank, const UseSpan& use) {
  std::vector<Step> steps;
  for (const AlignedEvent& at : rank.events) {
    const std::size_t share = share_of(kind_of(*at.event));
    steps.push_back({at.start, share, 1});
    steps.push_back({at.end, share, -1});
  }
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.when < b.when; });
  std::array<int, kShares.size()> active{};
  double since = 0;
  for (const Step& step : steps) {
    const auto first = std::find_if(active.begin(), active.end(), [](int n) { return n > 0; });
    if (first != active.end()) {
      use(since, step.when, static_cast<std::size_t>(first - active.begin()));
    }
    active[step.share] += step.more;
    since = step.when;
  }
}

TimeShares time_shares(const AlignedRank& rank, double seconds) {
  TimeShares shares;
  double idle = seconds;
  each_span(rank, [&](double start, double end, std::size_t share) {
    shares.*kShares[share] += end - start;
    idle -= end - start;
  });
  shares.idle = std::max(0.0, idle);
  return shares;
}

}  // namespace hetpipe
