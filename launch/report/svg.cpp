// SPDX-License-Identifier: Apache-2.0
#include "launch/report/svg.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/axis.h"
#include "base/markup.h"
#include "base/text.h"
#include "launch/report/html.h"

namespace hetpipe {
namespace {

// Sizes in pixels.
constexpr double kChartWidth = 560;
constexpr double kChartHeight = 300;
constexpr double kLeft = 62;
constexpr double kRight = 28;  // half of the last number below the axis
constexpr double kTop = 30;    // the legend's line
constexpr double kBottom = 46;
constexpr double kLetter = 7;
constexpr int kLooks = 6;  // lines of the style sheet

struct ChartRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  void hold(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
};

struct ChartScale {
  ChartRange across;
  ChartRange up;
  double x(double value) const {
    return kLeft +
           (kChartWidth - kLeft - kRight) * (value - across.low) / (across.high - across.low);
  }
  double y(double value) const {
    return kTop + (kChartHeight - kTop - kBottom) * (up.high - value) / (up.high - up.low);
  }
};

void widen(ChartRange& range) {
  if (range.empty()) range = {0, 1};
  if (range.high - range.low < 1e-12) {
    const double by = std::max(std::abs(range.high) * 0.05, 1e-6);
    range.low -= by;
    range.high += by;
  }
}

std::string frame_of(const ChartScale& scale, const Chart& chart) {
  const double bottom = kChartHeight - kBottom;
  std::string svg;
  for (const double mark : axis_marks(scale.up.low, scale.up.high, 6)) {
    const double y = scale.y(mark);
    svg += format("<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", kLeft, y, kChartWidth - kRight);
    svg += svg_text(kLeft - 6, y + 4, "end", format("%g", mark));
  }
  for (const double mark : axis_marks(scale.across.low, scale.across.high, 6)) {
    const double x = scale.x(mark);
    svg += format("<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", x, kTop, bottom);
    svg +=
        svg_text(x, bottom + 16, "middle", mark >= 1e4 ? format_count(mark) : format("%g", mark));
  }
  svg += svg_text((kLeft + kChartWidth - kRight) / 2, kChartHeight - 8, "middle", chart.across);
  return svg + "\n";
}

std::vector<std::pair<double, double>> thinned(const ChartLine& line, const ChartScale& scale) {
  std::vector<std::pair<double, double>> kept;
  const auto& points = line.points;
  for (std::size_t i = 0; i < points.size();) {
    const double pixel = std::floor(scale.x(points[i].first));
    std::size_t least = i, most = i, end = i;
    for (; end < points.size() && std::floor(scale.x(points[end].first)) <= pixel; ++end) {
      if (points[end].second < points[least].second) least = end;
      if (points[end].second > points[most].second) most = end;
    }
    kept.push_back(points[std::min(least, most)]);
    if (least != most) kept.push_back(points[std::max(least, most)]);
    i = std::max(end, i + 1);
  }
  return kept;
}

std::string line_of(const ChartLine& line, const ChartScale& scale, std::size_t look) {
  std::string path, dots;
  for (const auto& [x, y] : thinned(line, scale)) {
    if (!std::isfinite(y)) continue;
    path += format("%s%.1f %.1f", path.empty() ? "M" : "L", scale.x(x), scale.y(y));
    if (line.dots)
      dots += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>", scale.x(x), scale.y(y));
  }
  if (path.empty()) return {};
  return format("<g class=\"line l%zu\"><path d=\"", look % kLooks) + path + "\"/>" + dots +
         "</g>\n";
}

}  // namespace

std::string svg_drawing(const Drawing& drawing, const std::string& inside) {
  const std::string id = markup_text(drawing.id);
  const std::string title = markup_text(drawing.title);
  return "<figure>\n<figcaption>" + title +
         "</figcaption>\n<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"" +
         title + "\">\n<svg id=\"" + id + "\" role=\"img\" aria-labelledby=\"" + id + "-name " +
         id + "-about\" " +
         format("viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\">", drawing.width,
                drawing.height, drawing.width, drawing.height) +
         "\n<title id=\"" + id + "-name\">" + title + "</title>\n<desc id=\"" + id + "-about\">" +
         markup_text(drawing.description) + "</desc>\n" + inside + "</svg>\n</div>\n</figure>\n";
}

std::string svg_text(double x, double y, const char* anchor, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) +
         markup_text(text) + "</text>";
}

std::string svg_box(double x, double y, double width, double height, const char* look,
                    const std::string& tip) {
  const std::string start =
      format("<rect class=\"%s\" x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\"", look, x, y,
             width, height);
  if (tip.empty()) return start + "/>";
  return start + "><title>" + markup_text(tip) + "</title></rect>";
}

std::string svg_chart(Chart chart) {
  ChartScale scale;
  for (const ChartLine& line : chart.lines) {
    for (const auto& [x, y] : line.points) {
      scale.across.hold(x);
      scale.up.hold(y);
    }
  }
  widen(scale.across);
  widen(scale.up);
  std::string svg = frame_of(scale, chart);
  svg += svg_text(kLeft - 6, 14, "end", chart.up);
  double x = kLeft + 8;
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    const ChartLine& line = chart.lines[i];
    svg += line_of(line, scale, i);
    svg += format("<g class=\"line l%zu\"><path d=\"M%.1f 10h22\"/></g>", i % kLooks, x);
    svg += svg_text(x + 27, 14, "start", line.name);
    x += 44 + kLetter * static_cast<double>(line.name.size());
  }
  chart.drawing.width = kChartWidth;
  chart.drawing.height = kChartHeight;
  return svg_drawing(chart.drawing, svg);
}

std::string svg_histogram(Drawing drawing, const std::string& across, int first,
                          const std::vector<BarRow>& rows) {
  std::size_t bars = 1;
  ChartScale scale;
  scale.up = {0, 0};
  for (const BarRow& row : rows) {
    bars = std::max(bars, row.counts.size());
    for (const double count : row.counts) scale.up.hold(count);
  }
  scale.up.high = std::max(scale.up.high, 1.0);
  scale.across = {first - 0.5, first + static_cast<double>(bars) - 0.5};
  std::string svg;
  for (const double mark : axis_marks(0, scale.up.high, 5)) {
    svg += format("<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/>", kLeft, scale.y(mark),
                  kChartWidth - kRight);
    svg += svg_text(kLeft - 6, scale.y(mark) + 4, "end", format_count(mark));
  }
  const double bottom = kChartHeight - kBottom;
  const std::size_t step = std::max<std::size_t>(1, bars / 12);
  for (std::size_t i = 0; i < bars; i += step) {
    const int value = first + static_cast<int>(i);
    svg += svg_text(scale.x(value), bottom + 16, "middle", std::to_string(value));
  }
  svg += svg_text((kLeft + kChartWidth - kRight) / 2, kChartHeight - 8, "middle", across);
  const double width = 0.8 * (scale.x(1) - scale.x(0)) / static_cast<double>(rows.size());
  double legend = kLeft + 8;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::string look = format("bar b%zu", r % kLooks);
    for (std::size_t i = 0; i < rows[r].counts.size(); ++i) {
      const double count = rows[r].counts[i];
      if (count <= 0) continue;
      const int value = first + static_cast<int>(i);
      const double x =
          scale.x(value) + width * (static_cast<double>(r) - static_cast<double>(rows.size()) / 2);
      svg += svg_box(x, scale.y(count), width, bottom - scale.y(count), look.c_str(),
                     format("%s, %d: %.0f", rows[r].name.c_str(), value, count));
    }
    svg +=
        svg_box(legend, 4, 14, 12, look.c_str()) + svg_text(legend + 20, 14, "start", rows[r].name);
    legend += 36 + kLetter * static_cast<double>(rows[r].name.size());
  }
  drawing.width = kChartWidth;
  drawing.height = kChartHeight;
  return svg_drawing(drawing, svg + "\n");
}

}  // namespace hetpipe
