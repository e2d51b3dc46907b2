// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "base/markup.h"
#include "base/text.h"
#include "launch/command/version.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"
#include "launch/report/run_again.h"
#include "runtime/training/job.h"

namespace hetpipe {
namespace {

void add_key(const ReportedRun& run, const char* key, const char* title, HtmlTable& table) {
  const Json* value = run.result.find(key);
  if (value == nullptr || value->is_null()) return;
  table.add({title, markup_text(value->is_string() ? value->get<std::string>() : value->dump())});
}

std::string facts(const ReportedRun& run) {
  HtmlTable table("What was run", {"what", "value"});
  if (!run.simulation) table.add({"directory", markup_text(run.folder.string())});
  table.add({"plan hash", markup_text(to_hex(plan_hash(run.plan)))});
  if (run.plan.predicted) {
    table.add({"cluster hash", markup_text(run.plan.predicted->cluster_hash)});
    table.add({"profile hash", markup_text(run.plan.predicted->profile_hash)});
  }
  table.add({"system", markup_text(run.plan.system)});
  table.add({"model", markup_text(run.plan.model)});
  for (const auto& [key, title] : {std::pair{"seed", "seed"},
                                   {"optimizer", "optimizer"},
                                   {"learning_rate", "learning rate"},
                                   {"clock", "clock"},
                                   {"time_of", "times of plan"},
                                   {"ema", "decay of the weights' average"},
                                   {"dataset_size", "samples of an epoch"},
                                   {"exit", "how it ended"},
                                   {"checkpoint", "newest checkpoint"}}) {
    add_key(run, key, title, table);
  }
  for (const RunText& file : run.texts) {
    table.add({markup_text("hash of " + file.name), markup_text(file.hash)});
  }
  return table.html();
}

// A file is on the page once.
std::string text_of(const PanelRun& of, const RunText& file) {
  for (std::size_t i = 0; i < of.before.size(); ++i) {
    for (const RunText& other : of.before[i].texts) {
      if (other.name != file.name || other.hash != file.hash) continue;
      return html_paragraph(markup_text(file.name) +
                            format(" is that of <a href=\"#run%zu-provenance\">", i) +
                            markup_text(of.before[i].name) + "</a>.");
    }
  }
  return html_details(file.name + (file.text.size() > of.most_text ? " (shortened)" : " in full"),
                      html_code(shortened_text(file.text, of.most_text)));
}

}  // namespace

std::string provenance_panel(const PanelRun& of) {
  std::string html = facts(of.run);
  html +=
      html_paragraph(of.run.simulation ? "To repeat it:" : "To repeat it, where its directory is:");
  html += html_code(run_again(of.run, of.run.name + "-again"));
  for (const RunText& file : of.run.texts) html += text_of(of, file);
  html += html_details("The version that wrote this page", html_code(version_text()));
  return html_section(of.id + "-provenance", of.level, "Provenance", html);
}

}  // namespace hetpipe
