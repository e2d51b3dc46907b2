// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "base/json.h"
#include "base/markup.h"
#include "base/text.h"
#include "launch/command/shell_words.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"
#include "launch/report/run_again.h"
#include "partitioner/plan/system.h"
#include "runtime/store/packed_text.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostBoxes = 64;  // devices
constexpr std::size_t kMostRules = 8;   // links with a bandwidth of their own
// What a link's slider multiplies its bandwidth by, as --what-if reads it.
constexpr const char* kFactors[] = {"0.05", "0.1", "0.2", "0.3", "0.5", "0.7", "1",
                                    "1.5",  "2",   "3",   "5",   "7",   "10",  "20"};
constexpr int kUsualFactor = 6;

// The words that simulate the run's plan as it is, whose files a command finds.
std::vector<std::string> command_words(const ReportedRun& run) {
  if (run.simulation) {
    std::vector<std::string> words = run.simulated_by;
    words.insert(words.end(), {"--plan", run.plan_file});
    return words;
  }
  return {"hetpipe",   "simulate",
          "--cluster", run.name + "/cluster.toml",
          "--profile", run.name + "/profile.toml",
          "--plan",    run.plan_file};
}

std::string after(const std::vector<std::string>& words, const std::string& option) {
  const auto found = std::find(words.begin(), words.end(), option);
  return found == words.end() || found + 1 == words.end() ? std::string() : *(found + 1);
}

// Why the simulator cannot be asked about this run; empty: it can.
std::string why_no_sliders(const ReportedRun& run) {
  for (const char* file : {"cluster.toml", "profile.toml", "plan.toml"}) {
    if (text_of(run, file) == nullptr)
      return std::string(file) + " of the run is missing, so there is nothing to simulate.";
  }
  const auto& words = run.simulated_by;
  for (const char* option : {"--durations", "--precision"}) {
    if (std::find(words.begin(), words.end(), option) != words.end()) {
      return std::string("A simulation with ") + option + " has no sliders.";
    }
  }
  return {};
}

// A row of a label, a slider and what it says. `more`: attributes.
std::string slider(const PanelRun& of, const std::string& name, const std::string& label,
                   const std::string& more) {
  const std::string id = markup_text(of.id + "-what-if-" + name);
  return "<p class=\"slider\"><label for=\"" + id + "\">" + label + "</label><input id=\"" + id +
         "\" type=\"range\" " + more + "><output for=\"" + id + "\"></output></p>\n";
}

std::string link_slider(const PanelRun& of, const std::string& name, const std::string& label,
                        const std::string& change, const Link& link) {
  return slider(of, name, markup_text(label) + " (" + html_bandwidth(link.bandwidth) + ")",
                format("min=\"0\" max=\"%zu\" value=\"%d\" data-change=\"", std::size(kFactors) - 1,
                       kUsualFactor) +
                    markup_text(change) + "\"");
}

std::string number_slider(const PanelRun& of, const std::string& name, const char* label, int least,
                          int most, int step, int now) {
  return slider(of, name, label,
                format("min=\"%d\" max=\"%d\" step=\"%d\" value=\"%d\" data-set=\"%s\"", least,
                       most, step, now, name.c_str()));
}

std::string link_fields(const PanelRun& of) {
  const Cluster& cluster = *of.run.cluster;
  std::string html;
  if (cluster.intra_node.bandwidth > 0) {
    html += link_slider(of, "intra", "within nodes", "intra", cluster.intra_node);
  }
  if (cluster.nodes.size() > 1 && cluster.inter_node.bandwidth > 0) {
    html += link_slider(of, "inter", "between nodes", "inter", cluster.inter_node);
  }
  for (std::size_t i = 0; i < std::min(cluster.between.size(), kMostRules); ++i) {
    const LinkBetween& rule = cluster.between[i];
    const std::vector<std::string>& ends = rule.nodes.empty() ? rule.kinds : rule.nodes;
    html += link_slider(of, format("link%zu", i), "between " + join(ends, " and "),
                        "link " + join(ends, " "), rule.link);
  }
  return html.empty() ? html
                      : "<fieldset><legend>Bandwidth of links</legend>\n" + html + "</fieldset>\n";
}

std::string setting_fields(const PanelRun& of) {
  const Plan& plan = of.run.plan;
  const System parts = composition(plan);
  const int step = plan.micro_batches;
  std::string html = number_slider(of, "minibatch", "minibatch (samples)", step,
                                   std::max(4 * plan.minibatch, 8 * step) / step * step, step,
                                   plan.minibatch / step * step);
  if (!traits(parts.schedule).has_flush) {
    html += number_slider(of, "in-flight", "minibatches in flight (Nm)", 1,
                          std::max(8, 2 * plan.in_flight), 1, plan.in_flight);
  }
  if (plan.server && traits(parts.sync).bounded) {
    const int now = plan.server->clock_distance;
    html +=
        number_slider(of, "clock-distance", "clock distance (D)", 0, std::max(4, 2 * now), 1, now);
  }
  return "<fieldset><legend>Settings of the plan</legend>\n" + html + "</fieldset>\n";
}

std::string device_fields(const PanelRun& of) {
  const Cluster& cluster = *of.run.cluster;
  const std::vector<DeviceName> devices = cluster.devices();
  if (devices.size() > kMostBoxes) return {};
  std::map<std::string, std::string> work;
  for (std::size_t v = 0; v < of.run.plan.virtual_workers.size(); ++v) {
    const auto& stages = of.run.plan.virtual_workers[v].stages;
    for (std::size_t k = 0; k < stages.size(); ++k) {
      for (const DeviceName& device : stages[k].devices) {
        std::string& text = work[to_string(device)];
        text += text.empty() ? format(", virtual worker %zu, stage %zu", v, k) : format(", %zu", k);
      }
    }
  }
  std::string html;
  for (const DeviceName& device : devices) {
    const DeviceKind& kind = cluster.kind_of(device);
    const std::string name = to_string(device);
    html += "<label class=\"box\"><input type=\"checkbox\" checked data-node=\"" +
            markup_text(device.node) +
            format("\" data-index=\"%d\" data-memory=\"%lld\" data-kind=\"", device.index,
                   static_cast<long long>(kind.memory)) +
            markup_text(kind.name) + "\"> " +
            markup_text(name + " " + kind.name +
                        (work.contains(name) ? work[name] : std::string(", not used"))) +
            "</label>\n";
  }
  return "<fieldset><legend>Devices of the pool</legend>\n<div class=\"boxes\">\n" + html +
         "</div>\n</fieldset>\n";
}

std::string packed_request(const PanelRun& of, const std::vector<std::string>& words) {
  Json request{{"files",
                {{"cluster", after(words, "--cluster")},
                 {"profile", after(words, "--profile")},
                 {"plan", after(words, "--plan")}}}};
  for (const char* key : {"cluster", "profile", "plan"}) {
    request[key] = *text_of(of.run, std::string(key) + ".toml");
  }
  return packed_text(request.dump());
}

std::string factor_list() {
  std::vector<std::string> factors(std::begin(kFactors), std::end(kFactors));
  return join(factors, " ");
}

}  // namespace

std::string what_if_panel(const PanelRun& of) {
  const std::string title = "What if";
  std::string why_not = why_no_sliders(of.run);
  if (why_not.empty() && !of.simulator) {
    return html_section(
        of.id + "-what-if", of.level, title,
        html_paragraph(
            "This page has no sliders: <code>" +
            markup_text(of.run.simulation
                            ? "hetpipe simulate ... --report FILE --with-simulator"
                            : shell_words({"hetpipe", "report", of.run.name, "--with-simulator"})) +
            "</code> writes one with them, which runs the simulator in the browser."));
  }
  if (!why_not.empty()) {
    return html_section(of.id + "-what-if", of.level, title, html_paragraph(markup_text(why_not)));
  }
  const std::vector<std::string> words = command_words(of.run);
  std::string html = html_paragraph(
      "The plan with other links and settings, or without a device, by the simulator inside this "
      "page with the times of the profile. Stages stay where they are; where a device that they "
      "use is left out, it is planned anew. The numbers are those of the command below.");
  html += "<form class=\"what-if\" data-what-if=\"" + markup_text(of.id) + "\" data-command=\"" +
          markup_text(shell_words(words)) + "\" data-factors=\"" + factor_list() + "\" hidden>\n" +
          link_fields(of) + setting_fields(of) + device_fields(of) +
          "<p class=\"controls\"><button type=\"reset\">As it was</button></p>\n</form>\n";
  html +=
      "<p role=\"status\" id=\"" + markup_text(of.id) +
      "-what-if-said\">The simulator is starting (it needs this page's script).</p>\n<div id=\"" +
      markup_text(of.id) + "-what-if-answer\" hidden></div>\n";
  html += "<script type=\"text/plain\" id=\"" + markup_text(of.id) + "-what-if-request\">" +
          packed_request(of, words) + "</script>\n";
  return html_section(of.id + "-what-if", of.level, title, html);
}

std::string what_if_assets(const BrowserSimulator& simulator) {
  return "<script type=\"text/plain\" id=\"simulator-loader\">" + packed_text(simulator.loader) +
         "</script>\n<script type=\"text/plain\" id=\"simulator-module\">" + simulator.module +
         "</script>\n";
}

}  // namespace hetpipe
