// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "base/markup.h"
#include "base/text.h"
#include "launch/command/shell_words.h"
#include "launch/report/edits.h"
#include "launch/report/html.h"
#include "launch/report/panels.h"
#include "launch/report/run_again.h"
#include "launch/report/slow_spells.h"
#include "partitioner/plan/system.h"
#include "partitioner/schedule/schedule.h"

namespace hetpipe {
namespace {

constexpr double kComputes = 0.5;     // of the device's time: then it is computing that limits
constexpr double kWaits = 0.1;        // of it, for other stages
constexpr double kSpells = 0.1;       // of it, lost while it was slow
constexpr double kWorthDoing = 5e-3;  // of the samples/s

std::string kind_name(const PanelRun& of, const DeviceTime& time) {
  if (!of.run.cluster) return {};
  const auto name = try_parse_device(time.device);
  if (!name || !of.run.cluster->has(*name)) return {};
  return " (" + of.run.cluster->kind_of(*name).name + ")";
}

std::string by_measured(const PanelRun& of) {
  return of.run.simulation ? "" : " with the times that were measured";
}

bool flushes(const Plan& plan) { return traits(composition(plan).schedule).has_flush; }

// Waiting that more in flight would make up for, by the simulator where it could be asked. A flush
// is never made up for: twice as many micro-batches then have to make up for a quarter.
bool too_little_in_flight(const PanelRun& of, const std::optional<RunAdvice>& advice,
                          const DeviceTime& awaited) {
  const double lost = awaited.bubble / awaited.total;
  if (!advice) return lost > kComputes;
  const Explanation& asked = advice->explanation;
  if (asked.bottleneck.limited_by == "depth" || asked.bottleneck.limited_by == "memory")
    return true;
  return flushes(of.run.plan) && asked.depth.relative_throughput >= 0.25 * lost / (1 - lost);
}

std::string depth_clause(const PanelRun& of, const std::optional<RunAdvice>& advice) {
  const bool flush = flushes(of.run.plan);
  const std::string what = flush ? "micro-batches" : "minibatches in flight";
  const int now = flush ? of.run.plan.micro_batches : of.run.plan.in_flight;
  if (advice && advice->explanation.depth.limited_by == "memory") {
    return format("Too little memory for more %s (now %d) limits", what.c_str(), now);
  }
  return format("Too few %s (%d) limit", what.c_str(), now);
}

std::string limit_clause(const TimePart& part, const DeviceTime& time) {
  const std::string name = part.name;
  if (name == "compute") return format("Computing on stage %d limits", time.stage);
  if (name == "bubble") return "Waiting for other stages (bubble) limits";
  if (name == "transfer") return "Transfers between stages limit";
  if (name == "server wait") return "Waiting for parameter servers or sums of gradients limits";
  if (name == "data") return "Reading samples limits";
  return "Time that is none of computing, waiting or data (the host, checkpoints) limits";
}

// What of its time decides what the others wait for.
std::string clause_of(const PanelRun& of, const DeviceTime& awaited, const SlowSpells& spells,
                      const std::optional<RunAdvice>& advice) {
  const TimePart& wait = largest_wait(awaited);
  const bool computes =
      awaited.compute() >= kComputes * awaited.total || wait.seconds(awaited) < awaited.compute();
  const bool waits =
      std::string(wait.name) == "bubble" && wait.seconds(awaited) >= kWaits * awaited.total;
  if (spells.alone && spells.seconds >= kSpells * awaited.total) {
    return format("A device that is slow now and then, on stage %d, limits", awaited.stage);
  }
  if (waits && too_little_in_flight(of, advice, awaited)) return depth_clause(of, advice);
  return limit_clause(computes ? kTimeParts.front() : wait, awaited);
}

std::string measured_sentence(const PanelRun& of, const DeviceTime& awaited,
                              const std::optional<RunAdvice>& advice) {
  const double share = awaited.compute() / awaited.total;
  const TimePart& wait = largest_wait(awaited);
  const SlowSpells spells = slow_spells(of.run, awaited);
  std::string text = "<strong>" + markup_text(clause_of(of, awaited, spells, advice)) + " this " +
                     (of.run.simulation ? "plan" : "run") +
                     ".</strong> The device that waited least for other stages is " +
                     markup_text(awaited.device + kind_name(of, awaited)) +
                     format(" (virtual worker %d, stage %d): it computed ", awaited.virtual_worker,
                            awaited.stage) +
                     html_percent(share) + " of " + html_seconds(awaited.total);
  if (wait.seconds(awaited) > 0) {
    text += ", and its largest other share is " + markup_text(wait.name) + " with " +
            html_percent(wait.seconds(awaited) / awaited.total);
  }
  text += ".";
  if (spells.seconds >= kSpells * awaited.total) {
    text += " " + html_count(spells.actions) +
            " of its actions took more than twice as long as most, together " +
            html_seconds(spells.seconds) + " longer.";
  }
  return text;
}

// What helps a data-bound run is no part of a plan, so the simulator does not know it.
std::string data_edit(const PanelRun& of, const DeviceTime& awaited) {
  const double share = awaited.data / awaited.total;
  if (share < 0.05) return {};
  const std::string threads = config_value(of.run, "data-threads");
  const int more = threads.empty() ? 2 : 2 * std::max(1, std::atoi(threads.c_str()));
  return html_paragraph("It waited for samples for " + html_percent(share) +
                        " of its time: read with more threads, which gives at most " +
                        html_percent(share / (1 - share)) + ":") +
         html_code(
             run_again(of.run, of.run.name + "-edited", {"--data-threads", std::to_string(more)}));
}

std::string change_of(const RunEdit& edit) {
  std::string text =
      html_number(edit.relative_throughput, format("%+.1f %%", 100 * edit.relative_throughput)) +
      " samples/s";
  if (std::abs(edit.relative - edit.relative_throughput) >= kWorthDoing) {
    text += " (worth " + html_number(edit.relative, format("%+.1f %%", 100 * edit.relative)) +
            " until an accuracy, as updates come later)";
  }
  return text;
}

// More samples/s that are worth less, as updates come later: the reader decides.
std::string faster_but_later(const RunAdvice& advice) {
  const RunEdit* fastest = nullptr;
  for (const RunEdit& edit : advice.edits) {
    if (fastest == nullptr || edit.relative_throughput > fastest->relative_throughput) {
      fastest = &edit;
    }
  }
  if (fastest == nullptr || fastest == &advice.edits.front()) return {};
  if (fastest->relative_throughput < advice.edits.front().relative_throughput + kWorthDoing) {
    return {};
  }
  return html_paragraph("If samples/s alone count, " + markup_text(fastest->what) + ": " +
                        change_of(*fastest) + ".") +
         html_code(fastest->commands);
}

std::string edits_text(const PanelRun& of, const RunAdvice& advice) {
  std::string html;
  if (!advice.edits.empty() && advice.edits.front().relative >= kWorthDoing) {
    const RunEdit& best = advice.edits.front();
    html +=
        html_paragraph("<strong>The edit that helps most: " + markup_text(best.what) +
                       ".</strong> By simulation" + by_measured(of) + ": " + change_of(best) + ".");
    html += html_code(best.commands);
  } else {
    html += html_paragraph(
        "<strong>No single edit of the plan that was tried helps</strong> by half a percent or "
        "more, by simulation" +
        by_measured(of) + "; other hardware is what is left (below).");
    html += html_code(of.run.result.is_null() && !of.run.simulation
                          ? shell_words({"hetpipe", "train", "--resume", of.run.name})
                          : run_again(of.run, of.run.name + "-again"));
  }
  html += faster_but_later(advice);
  HtmlTable table("Edits that were tried", {"edit", "samples/s", "until an accuracy"});
  for (const RunEdit& edit : advice.edits) {
    table.add(
        {markup_text(edit.what),
         html_number(edit.relative_throughput, format("%+.1f %%", 100 * edit.relative_throughput)),
         html_number(edit.relative, format("%+.1f %%", 100 * edit.relative))});
  }
  std::string more = table.empty() ? "" : table.html();
  more += "<ul>\n";
  for (const std::string& sentence : advice.explanation.sentences) {
    more += "<li>" + markup_text(sentence) + "</li>\n";
  }
  more += "</ul>\n";
  return html + html_details("What else was asked of the simulator", more);
}

std::string throughput_text(const PanelRun& of, const std::optional<RunAdvice>& advice) {
  std::string text;
  if (const auto measured = of.run.number("throughput")) {
    text = "It trained " + html_rate(*measured, "samples/s");
    const auto predicted = of.run.number("predicted_throughput");
    if (predicted && *predicted > 0) {
      text += "; the plan predicted " + html_rate(*predicted, "samples/s") +
              format(" (%+.1f %%)", 100 * (*measured / *predicted - 1));
    }
    if (advice) {
      text +=
          "; by simulation with the measured times of its actions it would be " +
          html_rate(advice->throughput, "samples/s") +
          " in its steady state (without filling and draining, and what was lost between actions)";
    }
    text += ".";
  }
  return text.empty() ? "" : html_paragraph(text);
}

}  // namespace

std::string limit_panel(const PanelRun& of) {
  std::string html;
  for (const std::string& missing : of.run.missing) {
    html += "<p class=\"note\" role=\"note\">" + markup_text(missing) + "</p>\n";
  }
  const DeviceTime* awaited = least_in_bubbles(of.times);
  if (awaited == nullptr) {
    return html_section(of.id + "-limit", of.level, "What limits it",
                        html + html_paragraph("No device computed anything."));
  }
  std::string why_not;
  const std::optional<RunAdvice> advice = advise(of.run, of.times, why_not);
  html += "<p class=\"lead\">" + measured_sentence(of, *awaited, advice) + "</p>\n";
  html += throughput_text(of, advice);
  html += data_edit(of, *awaited);
  html += advice ? edits_text(of, *advice)
                 : html_paragraph("Edits could not be tried: " + markup_text(why_not) + ".");
  return html_section(of.id + "-limit", of.level, "What limits it", html);
}

}  // namespace hetpipe
