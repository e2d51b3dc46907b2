// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

// Drawings of a page, whose colours and fonts are the style sheet's.
namespace hetpipe {

// A drawing with a name and a description for who cannot see it, in a frame that scrolls where it
// is wider than the page. Sizes in pixels; `inside` is SVG.
struct Drawing {
  std::string id;  // of the page, unique
  std::string title;
  std::string description;
  double width = 0;
  double height = 0;
};
std::string svg_drawing(const Drawing& drawing, const std::string& inside);

// `anchor`: "start", "middle" or "end". The text is escaped.
std::string svg_text(double x, double y, const char* anchor, const std::string& text);
// `look`: a class of the style sheet. `tip`: shown under the pointer; empty: nothing.
std::string svg_box(double x, double y, double width, double height, const char* look,
                    const std::string& tip = {});

struct ChartLine {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y), x rising
  bool dots = false;                              // a mark at each point
};
struct Chart {
  Drawing drawing{};  // its size is the chart's
  std::string across;
  std::string up;
  std::vector<ChartLine> lines;
};
// Lines over a common axis, with a legend. Long lines are thinned: of each pixel's points the least
// and the largest stay.
std::string svg_chart(Chart chart);

// Bars side by side: counts of whole numbers first, first + 1, ...
struct BarRow {
  std::string name;
  std::vector<double> counts;
};
std::string svg_histogram(Drawing drawing, const std::string& across, int first,
                          const std::vector<BarRow>& rows);

}  // namespace hetpipe
