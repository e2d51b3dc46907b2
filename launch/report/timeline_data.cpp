// SPDX-License-Identifier: Apache-2.0
#include "launch/report/timeline_data.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/report/message_times.h"
#include "launch/trace/time_shares.h"
#include "partitioner/simulator/gantt.h"
#include "partitioner/simulator/timeline.h"

namespace hetpipe {
namespace {

using BinShares = std::vector<std::array<double, kActivities.size()>>;

void add_span(double start, double end, std::size_t activity, double bin, BinShares& shares) {
  for (auto b = static_cast<std::size_t>(start / bin); b < shares.size(); ++b) {
    const double from = std::max(start, static_cast<double>(b) * bin);
    const double until = std::min(end, static_cast<double>(b + 1) * bin);
    if (from >= end) break;
    if (until > from) shares[b][activity] += (until - from) / bin;
  }
}

BinShares shares_of(const AlignedRank& rank, double seconds, std::size_t bins) {
  BinShares shares(bins);
  each_span(rank, [&](double start, double end, std::size_t activity) {
    if (end > start) {
      add_span(start, end, activity, seconds / static_cast<double>(bins), shares);
    }
  });
  return shares;
}

bool overlaps(const AlignedEvent& at, double start, double end) {
  return at.end >= start && at.start <= end;
}

std::size_t actions_in(const AlignedTraces& traces, double start, double end) {
  std::size_t count = 0;
  for (const AlignedRank& rank : traces.ranks) {
    count += static_cast<std::size_t>(
        std::count_if(rank.events.begin(), rank.events.end(),
                      [&](const AlignedEvent& at) { return overlaps(at, start, end); }));
  }
  return count;
}

// The largest window around `centre` (a share of the run) that holds at most so many actions.
ShownWindow window_at(const AlignedTraces& traces, double centre, std::size_t most) {
  double least = 0, largest = traces.seconds;
  ShownWindow window;
  const auto of = [&](double length) {
    const double start = std::clamp(centre * traces.seconds - length * centre, 0.0,
                                    std::max(0.0, traces.seconds - length));
    return std::pair{start, start + length};
  };
  for (int step = 0; step < 40; ++step) {
    const double length = step == 0 ? largest : (least + largest) / 2;
    const auto [start, end] = of(length);
    if (actions_in(traces, start, end) <= most) {
      least = length;
      if (step == 0) break;
    } else {
      largest = length;
    }
  }
  std::tie(window.start, window.end) = of(least);
  return window;
}

std::unique_ptr<Timeline> predicted_of(const ReportedRun& run, Minibatch& first) {
  if (!run.cluster || !run.profile) return nullptr;
  first = std::numeric_limits<Minibatch>::max();
  Minibatch last = -1;
  for (const AlignedRank& rank : run.timeline->ranks) {
    for (const AlignedEvent& at : rank.events) {
      if (!computes(static_cast<ActionKind>(at.event->kind))) continue;
      first = std::min(first, at.event->minibatch);
      last = std::max(last, at.event->minibatch);
    }
  }
  if (last < first) return nullptr;
  try {
    return std::make_unique<Timeline>(run.plan, *run.cluster, *run.profile, last - first + 1);
  } catch (const UserError&) {
    return nullptr;
  }
}

// Predicted times begin with the window, and anew behind each evaluation, which nobody predicts.
void predict_rank(const TraceInfo& info, const Timeline& timeline, Minibatch first,
                  std::vector<ShownAction>& actions) {
  const Timeline::Row& row =
      timeline.row(VirtualWorkerId{static_cast<int>(info.virtual_worker)},
                   static_cast<int>(info.stage), static_cast<int>(info.replica));
  bool begin = true;
  double shift = 0;
  for (ShownAction& shown : actions) {
    const TraceEvent& event = *shown.event;
    const auto kind = static_cast<ActionKind>(event.kind);
    if (kind == ActionKind::evaluate) begin = true;
    if (!computes(kind)) continue;
    Action action;
    action.kind = kind;
    action.minibatch = event.minibatch - first;
    action.micro = event.micro_batch;
    action.chunk = event.chunk;
    const auto span = row.of(action);
    if (!span) continue;
    if (begin) shift = shown.start - (span->end - span->busy);
    begin = false;
    shown.predicted_start = span->end - span->busy + shift;
    shown.predicted_end = span->end + shift;
  }
}

std::vector<ShownMark> marks_of(const AlignedTraces& traces) {
  std::vector<ShownMark> marks;
  for (const AlignedRank& rank : traces.ranks) {
    for (const AlignedEvent& at : rank.events) {
      const char kind = at.event->kind;
      if (kind != 'E' && kind != 'C') continue;
      const bool known = std::any_of(marks.begin(), marks.end(), [&](const ShownMark& mark) {
        return mark.kind == kind && std::abs(mark.when - at.start) < 0.01 * traces.seconds;
      });
      if (known) continue;
      marks.push_back(
          {at.start, kind,
           format("%s after wave %lld, at %s", kind == 'E' ? "evaluation" : "checkpoint",
                  static_cast<long long>(at.event->version), format_seconds(at.start).c_str())});
    }
  }
  std::sort(marks.begin(), marks.end(),
            [](const ShownMark& a, const ShownMark& b) { return a.when < b.when; });
  return marks;
}

}  // namespace

ShownTimeline shown_timeline(const ReportedRun& run, std::size_t bins, std::size_t most_actions) {
  const AlignedTraces& traces = *run.timeline;
  ShownTimeline timeline;
  timeline.seconds = traces.seconds;
  timeline.bins = bins;
  for (const AlignedRank& rank : traces.ranks) {
    timeline.shares.push_back(shares_of(rank, traces.seconds, bins));
  }
  timeline.whole = actions_in(traces, 0, traces.seconds) <= most_actions;
  if (timeline.whole) {
    timeline.windows.push_back({0, traces.seconds});
  } else {
    for (const double centre : {0.0, 0.5, 1.0}) {
      timeline.windows.push_back(window_at(traces, centre, most_actions / 3));
    }
  }
  Minibatch first = 0;
  const std::unique_ptr<Timeline> predicted = run.simulation ? nullptr : predicted_of(run, first);
  timeline.predicted = predicted != nullptr;
  for (ShownWindow& window : timeline.windows) {
    for (const AlignedRank& rank : traces.ranks) {
      std::vector<ShownAction>& shown = window.ranks.emplace_back();
      for (const AlignedEvent& at : rank.events) {
        if (overlaps(at, window.start, window.end)) shown.push_back({at.start, at.end, at.event});
      }
      std::sort(shown.begin(), shown.end(),
                [](const ShownAction& a, const ShownAction& b) { return a.start < b.start; });
      if (predicted && rank.trace->info.virtual_worker >= 0) {
        predict_rank(rank.trace->info, *predicted, first, shown);
      }
    }
  }
  const std::vector<MatchedMessage> messages = matched_messages(run);
  for (ShownWindow& window : timeline.windows) {
    for (const MatchedMessage& m : messages) {
      if (!overlaps(*m.sent, window.start, window.end)) continue;
      if (!overlaps(*m.received, window.start, window.end)) continue;
      window.messages.push_back({m.sent->start, m.received->end, m.from, m.to});
    }
    std::sort(window.messages.begin(), window.messages.end(),
              [](const ShownMessage& a, const ShownMessage& b) { return a.sent < b.sent; });
  }
  timeline.marks = marks_of(traces);
  const Json* exit = run.result.find("exit");
  const std::string end = exit == nullptr
                              ? (run.simulation ? "the end" : "the last that the traces hold")
                              : "the run ends: " + exit->get<std::string>();
  timeline.marks.push_back({traces.seconds, 'X', end});
  return timeline;
}

std::string timeline_json(const ShownTimeline& timeline, const ReportedRun& run) {
  const auto us = [](double seconds) {
    return static_cast<std::int64_t>(std::llround(1e6 * seconds));
  };
  Json::Array ranks, clocks, bins, windows, marks;
  for (const AlignedRank& rank : run.timeline->ranks) {
    clocks.push_back(us(rank.uncertainty));
    ranks.push_back(format("rank %d: ", rank.trace->info.rank) + name_of(rank.trace->info));
  }
  for (const BinShares& rank : timeline.shares) {
    Json::Array flat;
    for (const auto& bin : rank) {
      for (const double share : bin) flat.push_back(static_cast<int>(std::lround(100 * share)));
    }
    bins.push_back(std::move(flat));
  }
  for (const ShownWindow& window : timeline.windows) {
    Json::Array of_ranks;
    for (const std::vector<ShownAction>& rank : window.ranks) {
      // start since the one before, length, letter, minibatch, micro-batch, predicted start since
      // the start, predicted length
      Json::Array flat;
      std::int64_t before = 0;
      for (const ShownAction& a : rank) {
        flat.push_back(us(a.start) - before);
        before = us(a.start);
        flat.push_back(us(a.end) - us(a.start));
        flat.push_back(static_cast<int>(a.event->kind));
        flat.push_back(a.event->minibatch);
        flat.push_back(a.event->micro_batch);
        const bool known = a.predicted_end > a.predicted_start;
        flat.push_back(known ? us(a.predicted_start) - us(a.start) : 0);
        flat.push_back(known ? us(a.predicted_end - a.predicted_start) : 0);
      }
      of_ranks.push_back(std::move(flat));
    }
    // from, to, sent since the one before, time on the way
    Json::Array messages;
    std::int64_t before = 0;
    for (const ShownMessage& m : window.messages) {
      messages.push_back(static_cast<std::int64_t>(m.from));
      messages.push_back(static_cast<std::int64_t>(m.to));
      messages.push_back(us(m.sent) - before);
      before = us(m.sent);
      messages.push_back(us(m.received) - us(m.sent));
    }
    windows.push_back(Json{{"start", us(window.start)},
                           {"end", us(window.end)},
                           {"ranks", std::move(of_ranks)},
                           {"messages", std::move(messages)}});
  }
  for (const ShownMark& mark : timeline.marks) {
    marks.push_back(
        Json{{"at", us(mark.when)}, {"kind", std::string(1, mark.kind)}, {"text", mark.text}});
  }
  std::string text = Json{{"seconds", timeline.seconds}, {"bins", timeline.bins},
                          {"ranks", std::move(ranks)},   {"clocks", std::move(clocks)},
                          {"shares", std::move(bins)},   {"windows", std::move(windows)},
                          {"marks", std::move(marks)}}
                         .dump();
  // A text must not end the element that holds it.
  std::string safe;
  for (const char c : text) safe += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return safe;
}

}  // namespace hetpipe
