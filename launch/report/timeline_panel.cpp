// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/axis.h"
#include "base/index.h"
#include "base/markup.h"
#include "base/text.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"
#include "launch/report/svg.h"
#include "launch/report/timeline_data.h"
#include "partitioner/simulator/gantt.h"

namespace hetpipe {
namespace {

// Sizes in pixels; the script draws with the same.
constexpr double kRankLabels = 190;
constexpr double kTimeline = 1000;
constexpr double kRankRow = 34;
constexpr double kRowsTop = 24;
constexpr double kAxis = 24;
constexpr std::size_t kActionBytes = 32;  // of the page, about, with its part of messages
constexpr std::size_t kLeastActions = 150;
constexpr std::size_t kDrawnAtOnce = 400;  // actions without the script

std::string row_name(const TraceInfo& info) {
  if (info.virtual_worker < 0) return format("rank %d: server", info.rank);
  return format("rank %d: vw %d, s%d %s", info.rank, static_cast<int>(info.virtual_worker),
                static_cast<int>(info.stage), info.device.c_str());
}

std::string legend() {
  std::string html = "<p class=\"legend\">";
  for (std::size_t i = 0; i < kActivities.size(); ++i) {
    html += format("<span><i class=\"%s\"></i>%s</span> ", kActivityLooks[i], kActivities[i]);
  }
  for (const auto& [look, name] : {std::pair{"k-F", "forward"},
                                   {"k-B", "backward"},
                                   {"k-U", "update"},
                                   {"k-predicted", "predicted (behind)"}}) {
    html += format("<span><i class=\"%s\"></i>%s</span> ", look, name);
  }
  return html + "</p>\n";
}

// Cumulative shares as steps, the largest behind.
std::string area(const std::vector<std::array<double, kActivities.size()>>& bins, std::size_t upto,
                 double y, double height) {
  const double width = kTimeline / static_cast<double>(bins.size());
  std::string path = format("M%.0f %.1f", kRankLabels, y + height);
  double last = -1;
  for (std::size_t b = 0; b < bins.size(); ++b) {
    double sum = 0;
    for (std::size_t a = 0; a <= upto; ++a) sum += bins[b][a];
    const double level = std::round(10 * (y + height * (1 - std::min(1.0, sum)))) / 10;
    if (level != last) {
      if (b > 0) path += format("H%.1f", kRankLabels + width * static_cast<double>(b));
      path += format("V%g", level);
    }
    last = level;
  }
  return path + format("H%.0fV%.1fZ", kRankLabels + kTimeline, y + height);
}

std::string axis(double start, double end, double bottom) {
  std::string svg;
  for (const double mark : axis_marks(start, end, 8)) {
    const double x = kRankLabels + kTimeline * (mark - start) / (end - start);
    svg += format("<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, kRowsTop, bottom);
    svg += svg_text(x, bottom + 16, "middle", format("%g s", mark));
  }
  return svg;
}

// Beside each other where they are of one moment.
std::string mark_label(char kind, double x) {
  if (kind == 'X') return svg_text(x + 18, 14, "start", "end");
  return kind == 'C' ? svg_text(x + 6, 14, "start", "C") : svg_text(x, 14, "middle", "E");
}

std::string marks_svg(const ShownTimeline& timeline, double start, double end, double bottom) {
  std::string svg;
  for (const ShownMark& mark : timeline.marks) {
    if (mark.when < start || mark.when > end) continue;
    const double x = kRankLabels + kTimeline * (mark.when - start) / (end - start);
    svg += format("<g class=\"mark\"><path d=\"M%.1f %.1fV%.1f\"/>", x, kRowsTop - 6, bottom) +
           mark_label(mark.kind, x) + "<title>" + markup_text(mark.text) + "</title></g>";
  }
  return svg;
}

double height_of(const ReportedRun& run) {
  return kRowsTop + kRankRow * static_cast<double>(run.timeline->ranks.size());
}

std::string labels_svg(const ReportedRun& run) {
  std::string svg;
  double y = kRowsTop;
  for (const AlignedRank& rank : run.timeline->ranks) {
    svg += svg_text(kRankLabels - 6, y + 20, "end", row_name(rank.trace->info));
    y += kRankRow;
  }
  return svg;
}

std::string overview(const PanelRun& of, const ShownTimeline& timeline) {
  const double bottom = height_of(of.run);
  std::string svg = axis(0, timeline.seconds, bottom) + labels_svg(of.run);
  for (std::size_t r = 0; r < timeline.shares.size(); ++r) {
    const double y = kRowsTop + kRankRow * static_cast<double>(r) + 3;
    for (std::size_t a = kActivities.size(); a-- > 0;) {
      const bool any = std::any_of(timeline.shares[r].begin(), timeline.shares[r].end(),
                                   [&](const auto& bin) { return bin[a] > 0.005; });
      if (!any) continue;
      svg += format("<path class=\"%s\" d=\"", kActivityLooks[a]) +
             area(timeline.shares[r], a, y, kRankRow - 6) + "\"/>";
    }
  }
  svg += marks_svg(timeline, 0, timeline.seconds, bottom);
  return svg_drawing(
      {of.id + "-overview", "The whole run: what each rank did over time",
       format("A row for each of %zu ranks, %zu steps of %s: shares of each step. E: "
              "an evaluation, C: a checkpoint.",
              timeline.shares.size(), timeline.bins,
              format_seconds(timeline.seconds / static_cast<double>(timeline.bins)).c_str()),
       kRankLabels + kTimeline + 44, bottom + kAxis},
      svg + "\n");
}

// The first window's start, as far as it is drawn without the script.
double drawn_until(const ShownWindow& window, std::size_t at_once) {
  std::vector<double> starts;
  for (const auto& rank : window.ranks) {
    for (const ShownAction& action : rank) starts.push_back(action.start);
  }
  std::sort(starts.begin(), starts.end());
  const std::size_t most = std::min(at_once, 40 * window.ranks.size());
  return starts.size() <= most ? window.end : starts[most];
}

std::string action_svg(const ShownAction& action, double y, double start, double scale) {
  const auto kind = static_cast<ActionKind>(action.event->kind);
  const double x = kRankLabels + std::max(0.0, action.start - start) * scale;
  const double end = std::min(kRankLabels + kTimeline, kRankLabels + (action.end - start) * scale);
  std::string svg;
  if (action.predicted_end > action.predicted_start) {
    const double from =
        std::max(kRankLabels, kRankLabels + (action.predicted_start - start) * scale);
    const double to =
        std::min(kRankLabels + kTimeline, kRankLabels + (action.predicted_end - start) * scale);
    if (to > from) svg += svg_box(from, y + 1, to - from, kRankRow - 4, "k-predicted");
  }
  const std::string name =
      format("%c%lld.%d", action.event->kind, static_cast<long long>(action.event->minibatch),
             action.event->micro_batch);
  const std::string tip =
      format("%s: %s from %s", name.c_str(), format_seconds(action.end - action.start).c_str(),
             format_seconds(action.start).c_str());
  const bool wide = computes(kind) || kind == ActionKind::evaluate;
  const double top = wide ? y + 6 : y + kRankRow - 9;
  svg += svg_box(x, top, std::max(0.4, end - x), wide ? kRankRow - 16 : 5,
                 format("k-%c", action.event->kind).c_str(), tip);
  return svg;
}

std::string detail(const PanelRun& of, const ShownTimeline& timeline) {
  const ShownWindow& window = timeline.windows.front();
  const double start = window.start;
  const double end =
      std::max(drawn_until(window, std::clamp<std::size_t>(of.most_bytes / 500, 20, kDrawnAtOnce)),
               start + 1e-6);
  const double bottom = height_of(of.run);
  const double scale = kTimeline / (end - start);
  std::string svg = axis(start, end, bottom) + labels_svg(of.run);
  for (std::size_t r = 0; r < window.ranks.size(); ++r) {
    const double y = kRowsTop + kRankRow * static_cast<double>(r);
    for (const bool wide : {true, false}) {
      for (const ShownAction& action : window.ranks[r]) {
        const auto kind = static_cast<ActionKind>(action.event->kind);
        if (action.start >= end) break;
        if ((computes(kind) || kind == ActionKind::evaluate) != wide) continue;
        svg += action_svg(action, y, start, scale);
      }
    }
  }
  svg += marks_svg(timeline, start, end, bottom);
  return svg_drawing(
      {of.id + "-actions", "Single actions of each rank",
       "The start of the run, action by action: computing as boxes, with what was "
       "predicted behind them; waits and messages as thin bars below. With the page's "
       "script it can be moved and zoomed.",
       kRankLabels + kTimeline + 44, bottom + kAxis},
      svg + "\n");
}

std::string controls(const PanelRun& of, const ShownTimeline& timeline) {
  std::string html = "<p class=\"controls\" hidden data-timeline=\"" + markup_text(of.id) + "\">";
  for (const auto& [action, label] : {std::pair{"in", "Zoom in"},
                                      {"out", "Zoom out"},
                                      {"left", "Earlier"},
                                      {"right", "Later"},
                                      {"all", "Whole run"}}) {
    html += format("<button type=\"button\" data-do=\"%s\">%s</button> ", action, label);
  }
  const char* names[] = {"start", "middle", "end"};
  for (std::size_t w = 0; w < timeline.windows.size(); ++w) {
    const char* name = timeline.whole ? "start" : names[w];
    html += format(
        "<button type=\"button\" data-do=\"window\" data-window=\"%zu\">Actions at the "
        "%s</button> ",
        w, name);
  }
  const bool messages = std::any_of(timeline.windows.begin(), timeline.windows.end(),
                                    [](const ShownWindow& w) { return !w.messages.empty(); });
  if (messages) {
    html +=
        "<button type=\"button\" data-do=\"messages\" aria-pressed=\"false\">Messages</button> ";
  }
  return html + "<output aria-live=\"polite\"></output></p>\n";
}

}  // namespace

std::string timeline_panel(const PanelRun& of) {
  if (!of.run.timeline) {
    return html_section(of.id + "-timeline", of.level, "Timeline",
                        html_paragraph("There is none: see the notes above."));
  }
  const std::size_t ranks = std::max<std::size_t>(1, of.run.timeline->ranks.size());
  const std::size_t bins = std::clamp<std::size_t>(of.most_bytes / 3 / (ranks * 80), 20, 250);
  const std::size_t actions = std::max(kLeastActions, of.most_bytes / 2 / kActionBytes);
  const ShownTimeline timeline = shown_timeline(of.run, bins, actions);
  std::string html =
      legend() + overview(of, timeline) + controls(of, timeline) + detail(of, timeline);
  html += "<script type=\"application/json\" id=\"" + markup_text(of.id) + "-timeline-data\">" +
          timeline_json(timeline, of.run) + "</script>\n";
  if (!timeline.whole) {
    html += html_paragraph(
        "Single actions are on the page for three windows: the start, the middle "
        "and the end of the run. hetpipe trace export writes all of them.");
  }
  if (of.run.simulation) return html_section(of.id + "-timeline", of.level, "Timeline", html);
  html += html_paragraph(
      timeline.predicted
          ? "What was predicted begins with each window, and anew behind each evaluation; a run's "
            "times are those of its actions, without the waits before them."
          : "Nothing is drawn behind the measured actions: they could not be predicted.");
  return html_section(of.id + "-timeline", of.level, "Timeline", html);
}

}  // namespace hetpipe
