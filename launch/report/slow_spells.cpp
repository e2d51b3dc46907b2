// SPDX-License-Identifier: Apache-2.0
#include "launch/report/slow_spells.h"

#include <algorithm>
#include <map>
#include <vector>

#include "partitioner/schedule/schedule.h"

namespace hetpipe {
namespace {

constexpr std::size_t kEnough = 8;  // actions of a kind, for a median that means something

SlowSpells spells_of(const AlignedRank& rank) {
  std::map<char, std::vector<double>> durations;
  for (const AlignedEvent& at : rank.events) {
    const auto kind = static_cast<ActionKind>(at.event->kind);
    if (computes(kind)) durations[at.event->kind].push_back(at.seconds());
  }
  SlowSpells spells;
  for (auto& [kind, seconds] : durations) {
    if (seconds.size() < kEnough) continue;
    const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
    std::nth_element(seconds.begin(), middle, seconds.end());
    const double usual = 2 * *middle;
    for (const double s : seconds) {
      if (s <= usual) continue;
      spells.seconds += s - usual;
      ++spells.actions;
    }
  }
  return spells;
}

}  // namespace

SlowSpells slow_spells(const ReportedRun& run, const DeviceTime& time) {
  SlowSpells own;
  double others = 0;
  int count = 0;
  if (!run.timeline || run.simulation) return own;
  for (const AlignedRank& rank : run.timeline->ranks) {
    const TraceInfo& info = rank.trace->info;
    if (info.virtual_worker < 0) continue;
    const SlowSpells spells = spells_of(rank);
    if (info.virtual_worker == time.virtual_worker && info.stage == time.stage &&
        info.replica == time.replica) {
      own = spells;
    } else {
      others += spells.seconds;
      ++count;
    }
  }
  own.alone = count == 0 || others / count < own.seconds / 2;
  return own;
}

}  // namespace hetpipe
