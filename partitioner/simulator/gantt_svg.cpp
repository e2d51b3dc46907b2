// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/axis.h"
#include "base/error.h"
#include "base/markup.h"
#include "base/text.h"
#include "partitioner/simulator/gantt.h"

namespace hetpipe {
namespace {

// Sizes in pixels.
constexpr int kChart = 1400;  // width of the time axis
constexpr int kRow = 26;
constexpr int kBar = 20;         // height of an action
constexpr int kWait = 4;         // height of a wait for a message
constexpr int kTop = 34;         // legend
constexpr int kAxis = 36;        // below the rows
constexpr double kLetter = 6.7;  // average width at font size 11
constexpr int kColumns = kChart / 7;
constexpr double kSmallestLabel = 11;

struct Look {
  ActionKind kind;
  const char* name;
  const char* colour;
};

// Light fills, so that black text stays readable; distinguished without colour by their letters.
constexpr Look kLooks[] = {
    {ActionKind::forward, "forward", "#9ecae1"},
    {ActionKind::backward, "backward", "#a1d99b"},
    {ActionKind::weight_gradient, "weight gradient", "#fdd0a2"},
    {ActionKind::recompute, "recompute", "#dadaeb"},
    {ActionKind::update, "update", "#fc9272"},
    {ActionKind::receive, "receive", "#bdbdbd"},
    {ActionKind::send, "send", "#969696"},
    {ActionKind::push, "push", "#c994c7"},
    {ActionKind::pull, "pull", "#df65b0"},
    {ActionKind::evaluate, "evaluate", "#ffffb3"},
    {ActionKind::checkpoint, "checkpoint", "#ffffb3"},
};

const Look& look_of(ActionKind kind) {
  for (const Look& look : kLooks) {
    if (look.kind == kind) return look;
  }
  ensure(false, "every kind of action has its look");
  return kLooks[0];
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) +
         markup_text(text) + "</text>\n";
}

std::string box(double x, double y, double width, double height, const char* fill,
                const std::string& tooltip) {
  return format(
             "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\" "
             "stroke=\"#636363\" stroke-width=\"0.4\">",
             x, y, width, height, fill) +
         "<title>" + markup_text(tooltip) + "</title></rect>\n";
}

// `whole`: of the run, of which span is drawn.
std::string axis(const TimeSpan& span, const TimeSpan& whole, double left, double top,
                 double bottom) {
  const double step = axis_step(span.end - span.begin, 10);
  const int decimals = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
  std::string text;
  for (double i = std::ceil(span.begin / step - 1e-9) + 0.0; i * step <= span.end * (1 + 1e-12);
       ++i) {
    const double x = left + (i * step - span.begin) / (span.end - span.begin) * kChart;
    text += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#d9d9d9\"/>\n",
                   x, top, x, bottom + 4);
    text += text_at(x, bottom + 16, "middle", format("%.*f", decimals, i * step + 0.0));
  }
  const std::string until =
      span.end < whole.end ? format(" (the run lasts until %.4g)", whole.end) : "";
  return text + text_at(left + kChart / 2.0, bottom + 31, "middle", "seconds" + until);
}

}  // namespace

std::string gantt_svg(const Simulation& simulation, const Cluster& cluster,
                      const GanttRequest& request) {
  ensure(!simulation.events.empty(), "the simulation kept its events");
  const TimeSpan span = shown_span(simulation, request, kColumns);
  std::vector<std::string> labels;
  std::size_t longest = 0;
  for (const SimulatedStage& stage : simulation.stages) {
    labels.push_back(format("%s %s   w%d s%d", to_string(stage.device).c_str(),
                            cluster.kind_of(stage.device).name.c_str(), stage.virtual_worker,
                            stage.stage) +
                     (stage.replica > 0 ? format(" r%d", stage.replica) : ""));
    longest = std::max(longest, labels.back().size());
  }
  const double left = static_cast<double>(longest) * kLetter + 16;
  const double bottom = kTop + kRow * static_cast<double>(simulation.stages.size());
  const double width = left + kChart + 16;
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      width, bottom + kAxis, width, bottom + kAxis);
  svg += axis(span, span_of(simulation), left, kTop, bottom);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    svg += text_at(left - 8, kTop + kRow * (static_cast<double>(row) + 0.65), "end", labels[row]);
  }
  const double scale = kChart / (span.end - span.begin);
  std::vector<bool> used(std::size(kLooks), false);
  for (const SimulatedEvent& event : simulation.events) {
    const double start = std::max(event.start, span.begin);
    const double end = std::min(event.end, span.end);
    if (end <= start) continue;
    const Look& look = look_of(event.action.kind);
    used[static_cast<std::size_t>(&look - kLooks)] = true;
    const double x = left + (start - span.begin) * scale;
    const double pixels = (end - start) * scale;
    const double y = kTop + kRow * static_cast<double>(event.row);
    const std::string name = to_string(event.action);
    const std::string tooltip =
        format("%s %s: %.6g s to %.6g s", look.name, name.c_str(), event.start, event.end);
    if (!computes(event.action.kind)) {
      svg += box(x, y + kBar - kWait + 3, pixels, kWait, look.colour, tooltip);
      continue;
    }
    svg += box(x, y + 3, pixels, kBar, look.colour, tooltip);
    const std::string inside = name.substr(0, name.find('@'));  // the row says which replica
    const std::string shorter = inside.substr(1);               // the colour says the kind as well
    for (const std::string& label : {inside, shorter}) {
      if (pixels < kSmallestLabel || pixels < kLetter * static_cast<double>(label.size()) + 1) {
        continue;
      }
      svg += text_at(x + pixels / 2, y + 3 + kBar * 0.7, "middle", label);
      break;
    }
  }
  double x = left;
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) continue;
    svg += box(x, 10, 14, 12, kLooks[i].colour, kLooks[i].name);
    const std::string name =
        std::string(1, static_cast<char>(kLooks[i].kind)) + " " + kLooks[i].name;
    svg += text_at(x + 19, 20, "start", name);
    x += 40 + kLetter * static_cast<double>(name.size());
  }
  svg += text_at(left, bottom + 31, "start",
                 "w virtual worker, s stage, r replica; in the boxes minibatch.micro-batch");
  return svg + "</svg>\n";
}

}  // namespace hetpipe
