// SPDX-License-Identifier: Apache-2.0
#include "base/markup.h"
#include "base/text.h"
#include "launch/report/html.h"
#include "launch/report/measured_profile.h"
#include "launch/report/panels.h"
#include "launch/report/svg.h"

namespace hetpipe {
namespace {

// Sizes in pixels.
constexpr double kBarLabels = 250;
constexpr double kBars = 640;
constexpr double kBarRow = 28;
constexpr double kBarsTop = 30;

std::string label_of(const DeviceTime& time) {
  std::string label = format("vw %d, stage %d", time.virtual_worker, time.stage);
  if (time.replica > 0) label += format(" r%d", time.replica);
  return label + ": " + time.device;
}

std::string bars(const PanelRun& of) {
  std::string svg;
  double x = kBarLabels;
  for (const TimePart& part : kTimeParts) {
    svg += svg_box(x, 8, 14, 12, part.look) + svg_text(x + 19, 18, "start", part.name);
    x += 42 + 7.2 * static_cast<double>(std::string(part.name).size());
  }
  double y = kBarsTop;
  for (const DeviceTime& time : of.times) {
    svg += svg_text(kBarLabels - 8, y + 17, "end", label_of(time)) + "\n";
    double whole = 0;  // waits may overlap a little with modelled actions
    for (const TimePart& part : kTimeParts) whole += part.seconds(time);
    double at = kBarLabels;
    for (const TimePart& part : kTimeParts) {
      const double share = whole > 0 ? part.seconds(time) / whole : 0;
      if (share <= 0) continue;
      svg += svg_box(at, y, share * kBars, kBarRow - 8, part.look,
                     format("%s: %s, %s", part.name, format_seconds(part.seconds(time)).c_str(),
                            shown_percent(part.seconds(time) / time.total).c_str()));
      at += share * kBars;
    }
    y += kBarRow;
  }
  for (int percent = 0; percent <= 100; percent += 25) {
    const double at = kBarLabels + kBars * percent / 100;
    svg += format("<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>", at, kBarsTop - 4, y);
    svg += svg_text(at, y + 14, percent == 100 ? "end" : "middle", format("%d %%", percent));
  }
  return svg_drawing({of.id + "-bars", "Where each device's time went",
                      "A bar for each device, divided by what it did: the table below has the same "
                      "numbers.",
                      kBarLabels + kBars + 10, y + 22},
                     svg + "\n");
}

std::string share_table(const PanelRun& of) {
  std::vector<std::string> header{"device"};
  for (const TimePart& part : kTimeParts) header.emplace_back(part.name);
  header.emplace_back("total");
  HtmlTable table("Shares of each device's time, without evaluations", header);
  for (const DeviceTime& time : of.times) {
    std::vector<std::string> row{markup_text(label_of(time))};
    for (const TimePart& part : kTimeParts) {
      row.push_back(time.total > 0 ? html_percent(part.seconds(time) / time.total) : "-");
    }
    row.push_back(html_seconds(time.total));
    table.add(std::move(row));
  }
  return table.html();
}

std::string seconds_table(const PanelRun& of) {
  HtmlTable table("The same in time",
                  {"device", "forward", "backward", "update", "bubble", "transfer", "server wait",
                   "data", "other", "of these unfed", "evaluation"});
  for (const DeviceTime& t : of.times) {
    table.add({markup_text(label_of(t)), html_seconds(t.forward), html_seconds(t.backward),
               html_seconds(t.update), html_seconds(t.bubble), html_seconds(t.transfer),
               html_seconds(t.server), html_seconds(t.data), html_seconds(t.other()),
               html_seconds(t.unfed), html_seconds(t.evaluation)});
  }
  return html_details("In seconds, and with evaluations", table.html());
}

std::string against(double measured, double predicted) {
  if (predicted <= 0) return "-";
  return html_number(measured / predicted - 1,
                     format("%+.1f %%", 100 * (measured / predicted - 1)));
}

std::string predicted_table(const PanelRun& of) {
  if (of.run.simulation || !of.run.cluster || !of.run.profile) return {};
  HtmlTable table("Computing per minibatch: predicted by the profile, and measured",
                  {"device", "forward predicted", "measured", "", "backward predicted", "measured",
                   "", "update predicted", "measured", ""});
  for (const DeviceTime& time : of.times) {
    const auto s = stage_times_of(time, of.run.plan, *of.run.cluster, *of.run.profile);
    if (!s) continue;
    table.add({markup_text(label_of(time)), html_seconds(s->forward),
               html_seconds(s->measured_forward), against(s->measured_forward, s->forward),
               html_seconds(s->backward), html_seconds(s->measured_backward),
               against(s->measured_backward, s->backward), html_seconds(s->update),
               html_seconds(s->measured_update), against(s->measured_update, s->update)});
  }
  return table.empty() ? "" : table.html();
}

}  // namespace

std::string time_panel(const PanelRun& of) {
  std::string html = html_paragraph("vw: virtual worker; s: stage; r: its replica.");
  html += bars(of) + share_table(of) + seconds_table(of);
  try {
    html += predicted_table(of);
  } catch (const UserError& error) {
    html += html_paragraph("Nothing is predicted: " + markup_text(first_line(error.what())));
  }
  if (of.run.result.is_null() && !of.run.simulation) {
    html += html_paragraph(
        "Of the traces: waits for other stages are all under bubble, and what only a run's result "
        "tells apart (transfers, data) is under bubble and other.");
  }
  return html_section(of.id + "-time", of.level, "Where the time went", html);
}

}  // namespace hetpipe
