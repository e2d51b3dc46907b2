// SPDX-License-Identifier: Apache-2.0
#include "launch/report/page.h"

#include <algorithm>
#include <array>

#include "base/markup.h"
#include "base/text.h"
#include "launch/report/assets.h"
#include "launch/report/comparison.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"

namespace hetpipe {
namespace {

// What may be long, from the first that fits. Bytes: of all timelines, of each file.
struct PageRoom {
  std::size_t timelines;
  std::size_t file;
};
constexpr std::array kPageRooms{PageRoom{600'000, 100'000}, PageRoom{600'000, 40'000},
                                PageRoom{300'000, 40'000},  PageRoom{150'000, 20'000},
                                PageRoom{50'000, 5'000},    PageRoom{0, 1'000}};

struct PagePart {
  const char* id;
  const char* title;
  std::string (*html)(const PanelRun& of);
  bool of_simulations = true;
};
constexpr std::array kPageParts{
    PagePart{"limit", "What limits it", limit_panel},
    PagePart{"what-if", "What if", what_if_panel},
    PagePart{"time", "Where the time went", time_panel},
    PagePart{"pool", "The pool", pool_panel},
    PagePart{"timeline", "Timeline", timeline_panel},
    PagePart{"learning", "Learning", learning_panel, false},
    PagePart{"memory", "Memory", memory_panel},
    PagePart{"links", "Links", links_panel, false},
    PagePart{"provenance", "Provenance", provenance_panel},
};

bool shown(const PagePart& part, const ReportedRun& run) {
  return part.of_simulations || !run.simulation;
}

std::string contents_of(const PanelRun& of) {
  std::string html = "<nav aria-label=\"Panels\"><ul>";
  for (const PagePart& part : kPageParts) {
    if (!shown(part, of.run)) continue;
    html += "<li><a href=\"#" + markup_text(of.id + "-" + part.id) + "\">" +
            markup_text(part.title) + "</a></li>";
  }
  return html + "</ul></nav>\n";
}

std::string headline(const ReportedRun& run) {
  std::string text = markup_text(run.plan.model) + " under " + markup_text(run.plan.system);
  if (const Json* exit = run.result.find("exit")) {
    text += ", " + markup_text(exit->get<std::string>());
  } else {
    text += run.simulation ? ", simulated" : ", not ended";
  }
  if (run.simulation) {
    return html_paragraph(text + ": " + html_rate(run.simulation->throughput, "samples/s") +
                          ", a minibatch of every virtual worker each " +
                          html_seconds(run.simulation->iteration_seconds) +
                          " in the steady state.");
  }
  if (const auto samples = run.number("samples")) {
    text += ": " + html_number(*samples, format_count(*samples)) + " samples";
  }
  if (const auto seconds = run.number("seconds")) text += " in " + html_seconds(*seconds);
  if (const auto pace = run.number("throughput")) text += ", " + html_rate(*pace, "samples/s");
  if (const auto evaluating = run.number("evaluation_seconds")) {
    text += ", and " + html_seconds(*evaluating) + " for evaluations";
  }
  if (const auto accuracy = run.number("test_accuracy")) {
    text += "; test accuracy " + html_accuracy(*accuracy);
  }
  if (const auto loss = run.number("test_loss")) text += ", test loss " + html_loss(*loss);
  return html_paragraph(text + ".");
}

// `limit`: the first panel, whose simulations take longest and which has no room to spare.
std::string run_html(const PanelRun& of, const std::string& limit) {
  std::string html = headline(of.run) + contents_of(of);
  for (const PagePart& part : kPageParts) {
    if (!shown(part, of.run)) continue;
    html += part.html == limit_panel ? limit : part.html(of);
  }
  return html;
}

PanelRun panel_run(std::span<const ReportedRun> runs, std::size_t i, const PageRoom& room,
                   bool simulator = false) {
  return {runs[i],
          device_times(runs[i]),
          format("run%zu", i),
          runs.size() > 1 ? 3 : 2,
          room.timelines / runs.size(),
          room.file,
          simulator,
          runs.first(i)};
}

std::string page_of(std::span<const ReportedRun> runs, const std::vector<std::string>& limits,
                    const std::string& assets, const PageRoom& room) {
  const bool several = runs.size() > 1;
  std::string title = runs.front().simulation ? "Simulation" : "Run report";
  if (!several) title += ": " + runs.front().name;
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
      "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
      markup_text(title) + "</title>\n<style>\n" + kReportStyle +
      "</style>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">To the content</a>\n"
      "<header><h1>" +
      markup_text(title) + "</h1></header>\n<main id=\"content\">\n";
  if (several) html += comparison_html(runs);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string inside = run_html(panel_run(runs, i, room, !assets.empty()), limits[i]);
    const std::string id = format("run%zu", i);
    html += several ? html_section(id, 2, runs[i].name, inside) : inside;
  }
  html += "</main>\n" + assets + "<script>\n" + kReportScript;
  if (!assets.empty()) html += kWhatIfScript;
  return html + "</script>\n</body>\n</html>\n";
}

}  // namespace

std::string report_page(std::span<const ReportedRun> runs,
                        const std::optional<BrowserSimulator>& simulator) {
  const std::string assets = simulator ? what_if_assets(*simulator) : std::string();
  std::vector<std::string> limits;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    limits.push_back(limit_panel(panel_run(runs, i, kPageRooms.front())));
  }
  std::size_t least = 0;
  for (const PageRoom& room : kPageRooms) {
    std::string page = page_of(runs, limits, assets, room);
    if (page.size() <= kMostPageBytes) return page;
    least = page.size();
  }
  throw UserError("report",
                  format("the page of %zu runs would take %s, and a page takes at most %s. "
                         "Give fewer runs%s.",
                         runs.size(), format_bytes(static_cast<double>(least)).c_str(),
                         format_bytes(static_cast<double>(kMostPageBytes)).c_str(),
                         simulator ? ", or leave out --with-simulator" : ""));
}

}  // namespace hetpipe
