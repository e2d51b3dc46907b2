// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "launch/report/reported_run.h"

// A run's timeline at the levels of detail that a page has room for: shares of all of it by time,
// and single actions of a few windows.
namespace hetpipe {

// What a moment of a rank counts as: of what happens at once the first, as in time_shares.h.
inline constexpr std::array kActivities{"compute",     "evaluation",      "checkpoint",
                                        "server wait", "wait for stages", "send"};
inline constexpr std::array kActivityLooks{"p-compute", "p-evaluate", "p-checkpoint",
                                           "p-server",  "p-bubble",   "p-send"};

struct ShownAction {
  double start = 0;  // s since the run's first action
  double end = 0;
  const TraceEvent* event = nullptr;
  double predicted_start = 0;  // both 0: not predicted
  double predicted_end = 0;
};
struct ShownMessage {
  double sent = 0;      // s, when it was handed over
  double received = 0;  // s, when its receiver had it
  std::size_t from = 0;
  std::size_t to = 0;  // ranks of the timeline
};
struct ShownWindow {
  double start = 0;  // s
  double end = 0;
  std::vector<std::vector<ShownAction>> ranks{};  // [rank of the timeline]
  std::vector<ShownMessage> messages{};           // between its actions, in the order of sending
};
struct ShownMark {
  double when = 0;  // s
  char kind = 'E';  // E: evaluation, C: checkpoint, end: 'X'
  std::string text;
};
struct ShownTimeline {
  double seconds = 0;
  std::size_t bins = 0;
  // [rank][bin][activity]: shares of the bin's time
  std::vector<std::vector<std::array<double, kActivities.size()>>> shares;
  std::vector<ShownWindow> windows;
  std::vector<ShownMark> marks;
  bool predicted = false;
  bool whole = false;  // the windows hold every action
};

// `most_actions`: that the windows may hold together.
ShownTimeline shown_timeline(const ReportedRun& run, std::size_t bins, std::size_t most_actions);

// As JSON for the page's script: times in microseconds.
std::string timeline_json(const ShownTimeline& timeline, const ReportedRun& run);

}  // namespace hetpipe
