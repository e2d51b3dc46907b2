// SPDX-License-Identifier: Apache-2.0
#include "partitioner/simulator/gantt.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace hetpipe {
namespace {

constexpr int kColumnsOfAnAction = 4;  // "F12-"
constexpr int kFewestColumns = 20;
constexpr std::size_t kMostRows = 64;

// What an ordinary action of the run takes: the median of its forwards and backwards.
double ordinary_seconds(const Simulation& simulation) {
  std::vector<double> seconds;
  for (const SimulatedEvent& event : simulation.events) {
    const bool pass =
        event.action.kind == ActionKind::forward || event.action.kind == ActionKind::backward;
    if (pass && event.end > event.start) seconds.push_back(event.end - event.start);
  }
  if (seconds.empty()) return 0;
  const auto middle = seconds.begin() + static_cast<long>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  return *middle;
}

// Columns of one device, as indices of events; -1: idle.
std::vector<int> columns_of(const Simulation& simulation, int row, const TimeSpan& span,
                            int columns) {
  const double column = (span.end - span.begin) / columns;
  std::vector<int> shown(static_cast<std::size_t>(columns), -1);
  std::vector<double> covered(shown.size(), 0);
  std::vector<double> busy(shown.size(), 0);
  for (std::size_t e = 0; e < simulation.events.size(); ++e) {
    const SimulatedEvent& event = simulation.events[e];
    if (event.row != row || !computes(event.action.kind)) continue;
    if (event.end <= span.begin || event.start >= span.end) continue;
    const int first = std::max(0, static_cast<int>((event.start - span.begin) / column));
    for (int c = first; c < columns && span.begin + c * column < event.end; ++c) {
      const auto at = static_cast<std::size_t>(c);
      const double inside = std::min(event.end, span.begin + (c + 1) * column) -
                            std::max(event.start, span.begin + c * column);
      busy[at] += inside;
      if (inside > covered[at]) {
        covered[at] = inside;
        shown[at] = static_cast<int>(e);
      }
    }
  }
  for (std::size_t c = 0; c < shown.size(); ++c) {
    if (busy[c] < column / 2) shown[c] = -1;
  }
  return shown;
}

// "F12---" in so many columns: the number in full, or not at all (a part of it would be another).
std::string cell(const Action& action, bool by_micro_batch, std::size_t columns) {
  std::string text(1, static_cast<char>(action.kind));
  const auto number = std::to_string(by_micro_batch ? action.micro : action.minibatch);
  if (text.size() + number.size() <= columns) text += number;
  text.resize(columns, '-');
  return text;
}

std::string ruler(const TimeSpan& span, int columns) {
  std::string text(static_cast<std::size_t>(columns), ' ');
  constexpr int kEvery = 20;
  for (int c = 0; c < columns; c += kEvery) {
    const std::string mark =
        "|" + format_seconds(span.begin + (span.end - span.begin) * c / columns);
    if (c + static_cast<int>(mark.size()) > columns) break;
    text.replace(static_cast<std::size_t>(c), mark.size(), mark);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string legend(const Simulation& simulation, bool by_micro_batch) {
  std::vector<std::string> parts;
  const auto add = [&](ActionKind kind, const char* name) {
    if (std::any_of(simulation.events.begin(), simulation.events.end(),
                    [&](const SimulatedEvent& event) {
                      return event.action.kind == kind && event.end > event.start;
                    })) {
      parts.push_back(std::string(1, static_cast<char>(kind)) + " " + name);
    }
  };
  add(ActionKind::forward, "forward");
  add(ActionKind::backward, "backward");
  add(ActionKind::weight_gradient, "weight gradient");
  add(ActionKind::recompute, "recompute");
  add(ActionKind::update, "update");
  parts.emplace_back(". idle");
  return join(parts, ", ") +
         (by_micro_batch ? "; numbers: micro-batch of its minibatch" : "; numbers: minibatch");
}

}  // namespace

bool computes(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::backward ||
         kind == ActionKind::weight_gradient || kind == ActionKind::recompute ||
         kind == ActionKind::update;
}

TimeSpan span_of(const Simulation& simulation) {
  TimeSpan span;
  if (simulation.events.empty()) return span;
  span.begin = simulation.events.front().start;
  for (const SimulatedEvent& event : simulation.events) {
    span.begin = std::min(span.begin, event.start);
    span.end = std::max(span.end, event.end);
  }
  return span;
}

TimeSpan shown_span(const Simulation& simulation, const GanttRequest& request, int columns) {
  const TimeSpan all = span_of(simulation);
  TimeSpan span;
  span.begin = request.from.value_or(all.begin);
  const double readable = ordinary_seconds(simulation) * columns / kColumnsOfAnAction;
  const double rest = all.end - span.begin;
  span.end =
      request.until.value_or(span.begin + (readable > 0 && readable < rest ? readable : rest));
  if (span.end <= span.begin || span.begin >= all.end || span.end <= all.begin) {
    throw UserError(
        "--from",
        format("%g s to %g s contains nothing (the run lasts from %g s to %g s). Choose a "
               "part of that.",
               span.begin, span.end, all.begin, all.end));
  }
  return span;
}

std::string gantt_text(const Simulation& simulation, const Cluster& cluster,
                       const GanttRequest& request) {
  ensure(!simulation.events.empty(), "the simulation kept its events");
  std::vector<std::string> labels;
  std::size_t label_width = 0;
  const std::size_t rows = std::min(simulation.stages.size(), kMostRows);
  for (std::size_t row = 0; row < rows; ++row) {
    const DeviceName& device = simulation.stages[row].device;
    labels.push_back(to_string(device) + " " + cluster.kind_of(device).name);
    label_width = std::max(label_width, labels.back().size());
  }
  const int columns = std::max(kFewestColumns, request.width - static_cast<int>(label_width) - 2);
  const TimeSpan span = shown_span(simulation, request, columns);
  const bool by_micro_batch =
      std::any_of(simulation.events.begin(), simulation.events.end(),
                  [](const SimulatedEvent& event) { return event.action.micro > 0; });

  std::string text = std::string(label_width + 2, ' ') + ruler(span, columns) + "\n";
  for (std::size_t row = 0; row < rows; ++row) {
    const auto shown = columns_of(simulation, static_cast<int>(row), span, columns);
    std::string line;
    for (std::size_t c = 0; c < shown.size();) {
      std::size_t end = c;
      while (end < shown.size() && shown[end] == shown[c]) ++end;
      line += shown[c] < 0 ? std::string(end - c, '.')
                           : cell(simulation.events[static_cast<std::size_t>(shown[c])].action,
                                  by_micro_batch, end - c);
      c = end;
    }
    labels[row].resize(label_width + 2, ' ');
    text += labels[row] + line + "\n";
  }
  if (rows < simulation.stages.size()) {
    text += format("%zu more devices are not shown\n", simulation.stages.size() - rows);
  }
  text += legend(simulation, by_micro_batch);
  const TimeSpan all = span_of(simulation);
  if (span.end < all.end) {
    text += format("; shown until %s of %s", format_seconds(span.end).c_str(),
                   format_seconds(all.end).c_str());
  }
  return text + "\n";
}

}  // namespace hetpipe
