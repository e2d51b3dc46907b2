// SPDX-License-Identifier: Apache-2.0
#include "launch/report/comparison.h"

#include "base/markup.h"
#include "base/text.h"
#include "launch/report/device_time.h"
#include "launch/report/html.h"

namespace hetpipe {
namespace {

// A part of all devices' time together.
double share_of(const std::vector<DeviceTime>& times, const TimePart& part) {
  double seconds = 0, total = 0;
  for (const DeviceTime& time : times) {
    seconds += part.seconds(time);
    total += time.total;
  }
  return total > 0 ? seconds / total : 0;
}

}  // namespace

std::string comparison_html(std::span<const ReportedRun> runs) {
  std::vector<std::string> header{"run",       "system",    "how it ended",  "samples/s",
                                  "predicted", "samples",   "training time", "test accuracy",
                                  "test loss", "most stale"};
  for (const TimePart& part : kTimeParts) header.emplace_back(part.name);
  HtmlTable table("The runs side by side; shares are of all devices' time", header);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ReportedRun& run = runs[i];
    const auto shown = [&](const char* key, auto form) -> std::string {
      const auto value = run.number(key);
      return value ? form(*value) : std::string("-");
    };
    const auto rate = [](double value) { return html_number(value, format("%.4g", value)); };
    const Json* exit = run.result.find("exit");
    const Json* stale = run.result.find("staleness");
    std::vector<std::string> row{
        format("<a href=\"#run%zu\">", i) + markup_text(run.name) + "</a>",
        markup_text(run.plan.system),
        markup_text(exit != nullptr ? exit->get<std::string>() : "not ended"),
        shown("throughput", rate),
        shown("predicted_throughput", rate),
        shown("samples", [](double value) { return html_number(value, format_count(value)); }),
        shown("seconds", html_seconds),
        shown("test_accuracy", html_accuracy),
        shown("test_loss", html_loss),
        stale != nullptr ? html_count(stale->at("max").get<std::int64_t>()) : "-"};
    const std::vector<DeviceTime> times = device_times(run);
    for (const TimePart& part : kTimeParts) row.push_back(html_percent(share_of(times, part)));
    table.add(std::move(row));
  }
  return html_section("comparison", 2, "The runs side by side", table.html());
}

}  // namespace hetpipe
