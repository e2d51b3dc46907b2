// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/axis.h"
#include "base/markup.h"
#include "base/text.h"
#include "launch/compare/report.h"

namespace hetpipe {
namespace {

// Sizes in pixels.
constexpr double kLeft = 76;
constexpr double kTop = 40;
constexpr double kWidth = 640;  // of the axes
constexpr double kHeight = 400;
constexpr double kLegend = 230;
constexpr double kBottom = 60;
constexpr double kLetter = 7;
constexpr int kTicks = 6;  // about

// Okabe and Ito's, which colour-blind eyes can distinguish; their dashes distinguish them without
// colour.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#e69f00", "#56b4e9", "#000000"};
constexpr const char* kDashes[] = {"", "9 4", "3 3", "12 4 3 4"};

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor) +
         markup_text(text) + "</text>\n";
}

struct Axes {
  double seconds = 1;  // from 0
  double low = 0;      // percent
  double high = 100;
  double x(double s) const { return kLeft + kWidth * s / seconds; }
  double y(double percent) const {
    return kTop + kHeight * (high - percent) / std::max(high - low, 1e-9);
  }
};

Axes axes_of(const Comparison& comparison) {
  double seconds = 0;
  double low = 100;
  double high = 0;
  const auto holds = [&](double percent) {
    low = std::min(low, percent);
    high = std::max(high, percent);
  };
  for (const Entry& entry : comparison.entries) {
    for (const RunResult& run : entry.runs) {
      for (const CurvePoint& point : run.curve) {
        seconds = std::max(seconds, point.seconds);
        holds(100 * point.accuracy);
      }
    }
  }
  if (low > high) return {};
  if (comparison.target_accuracy) holds(100 * *comparison.target_accuracy);
  const double tick = axis_step(std::max(high - low, 1e-9), kTicks);
  Axes axes;
  axes.seconds = seconds > 0 ? seconds * 1.02 : 1;
  axes.low = std::max(0.0, std::floor(low / tick) * tick);
  axes.high = std::min(100.0, std::ceil(high / tick + 0.01) * tick);
  return axes;
}

std::string frame(const Axes& axes) {
  std::string svg;
  const double right = kLeft + kWidth;
  const double bottom = kTop + kHeight;
  const double across = axis_step(axes.seconds, kTicks);
  for (double s = 0; s <= axes.seconds; s += across) {
    svg += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e5e5e5\"/>\n",
                  axes.x(s), kTop, axes.x(s), bottom);
    svg += text_at(axes.x(s), bottom + 18, "middle", format("%g", s));
  }
  const double up = axis_step(std::max(axes.high - axes.low, 1e-9), kTicks);
  for (double p = axes.low; p <= axes.high + up / 100; p += up) {
    svg += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#e5e5e5\"/>\n",
                  kLeft, axes.y(p), right, axes.y(p));
    svg += text_at(kLeft - 8, axes.y(p) + 4, "end", format("%g", p));
  }
  svg += format(
      "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" "
      "stroke=\"#666\"/>\n",
      kLeft, kTop, kWidth, kHeight);
  svg +=
      text_at(kLeft + kWidth / 2, bottom + 42, "middle", "training time in s, without evaluation");
  svg += format("<text transform=\"translate(20 %.1f) rotate(-90)\" text-anchor=\"middle\">",
                kTop + kHeight / 2) +
         "test accuracy in %</text>\n";
  return svg;
}

std::string look_of(std::size_t number) {
  std::string look = format("stroke=\"%s\"", kColours[number % std::size(kColours)]);
  const char* dashes = kDashes[number / std::size(kColours) % std::size(kDashes)];
  if (*dashes != '\0') look += format(" stroke-dasharray=\"%s\"", dashes);
  return look;
}

std::string line(const Axes& axes, const std::vector<CurvePoint>& curve, const std::string& look) {
  std::string points;
  for (const CurvePoint& point : curve) {
    points += format("%.1f,%.1f ", axes.x(point.seconds), axes.y(100 * point.accuracy));
  }
  return "<polyline points=\"" + points + "\" fill=\"none\" " + look + "/>\n";
}

std::string marks(const Axes& axes, const std::vector<CurvePoint>& curve, const char* colour) {
  std::string svg;
  for (const CurvePoint& point : curve) {
    svg += format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"/>\n",
                  axes.x(point.seconds), axes.y(100 * point.accuracy), colour);
  }
  return svg;
}

std::string shortened(const std::string& text) {
  const auto most = static_cast<std::size_t>((kLegend - 50) / kLetter);
  return text.size() <= most ? text : text.substr(0, most - 2) + "..";
}

}  // namespace

std::string accuracy_svg(const Comparison& comparison) {
  const Axes axes = axes_of(comparison);
  const double width = kLeft + kWidth + kLegend;
  const double height = kTop + kHeight + kBottom;
  std::string svg = format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
      "viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" font-size=\"13\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      width, height, width, height);
  svg += "<g font-weight=\"bold\">" +
         text_at(kLeft, kTop - 14, "start",
                 "Accuracy over training time: " + comparison.model + " on " + comparison.data) +
         "</g>\n";
  svg += frame(axes);
  const double legend = kLeft + kWidth + 16;
  double y = kTop + 14;
  if (comparison.target_accuracy) {
    const double at = axes.y(100 * *comparison.target_accuracy);
    svg += format(
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#666\" "
        "stroke-dasharray=\"2 4\"/>\n",
        kLeft, at, kLeft + kWidth, at);
    svg += text_at(kLeft + 6, at - 5, "start",
                   format("target %g %%", 100 * *comparison.target_accuracy));
  }
  for (std::size_t i = 0; i < comparison.entries.size(); ++i) {
    const Entry& entry = comparison.entries[i];
    const std::vector<CurvePoint> mean = mean_curve(entry);
    if (mean.empty()) {
      svg += "<g fill=\"#888\">" +
             text_at(legend, y + 4, "start",
                     shortened(entry.name +
                               (entry.runs.empty() ? ": not trained" : ": not evaluated"))) +
             "</g>\n";
      y += 22;
      continue;
    }
    if (entry.runs.size() > 1) {
      for (const RunResult& run : entry.runs) {
        svg += line(axes, run.curve, look_of(i) + " stroke-width=\"1\" stroke-opacity=\"0.35\"");
      }
    }
    svg += line(axes, mean, look_of(i) + " stroke-width=\"2\"");
    svg += marks(axes, mean, kColours[i % std::size(kColours)]);
    svg += format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s stroke-width=\"2\"/>\n",
                  legend, y, legend + 28, y, look_of(i).c_str());
    svg += text_at(legend + 34, y + 4, "start", shortened(entry.name));
    y += 22;
  }
  if (comparison.seeds.size() > 1) {
    svg += text_at(legend, y + 12, "start", "thick: mean of the seeds");
  }
  return svg + "</svg>\n";
}

}  // namespace hetpipe
