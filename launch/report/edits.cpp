// SPDX-License-Identifier: Apache-2.0
#include "launch/report/edits.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"
#include "launch/command/shell_words.h"
#include "launch/report/measured_profile.h"
#include "launch/report/run_again.h"
#include "partitioner/plan/system.h"
#include "partitioner/planners/changed_plan.h"
#include "partitioner/planners/explain_parts.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostDevices = 32;  // of larger pools nothing is asked: it takes minutes

// An edit of the plan file: texts that are replaced.
using Replacements = std::vector<std::pair<std::string, std::string>>;

std::string layers_text(int first, int end) { return format("layers = [%d, %d]", first, end); }

std::string replaced(std::string text, const Replacements& all) {
  for (const auto& [from, to] : all) {
    std::size_t at = 0;
    while ((at = text.find(from, at)) != std::string::npos) {
      text.replace(at, from.size(), to);
      at += to.size();
    }
  }
  return text;
}

std::string sed_words(const Replacements& all) {
  std::string words;
  for (const auto& [from, to] : all) {
    std::string pattern;
    for (const char c : from) {
      if (c == '[' || c == ']') pattern += '\\';
      pattern += c;
    }
    words += " -e 's/" + pattern + "/" + to + "/'";
  }
  return words;
}

class RunEdits {
 public:
  RunEdits(const ReportedRun& run, const ExplainedPlan& asked, const Explanation& explanation)
      : run_(run), asked_(asked), explanation_(explanation) {}

  std::vector<RunEdit> all() {
    move_layers();
    more_in_flight();
    raise_distance();
    narrow_pushes();
    std::stable_sort(edits_.begin(), edits_.end(),
                     [](const RunEdit& a, const RunEdit& b) { return a.relative > b.relative; });
    return std::move(edits_);
  }

 private:
  std::string again(const std::vector<std::string>& more, const std::string& plan = {}) const {
    return run_again(run_, run_.name + "-edited", more, plan);
  }

  void add(const std::string& what, const Plan& changed, const std::string& commands) {
    const Alternative answer = tried(asked_, what, changed);
    if (!answer.relative) return;
    edits_.push_back({what, commands, *answer.relative, answer.relative_throughput});
  }

  void edit_file(const std::string& what, const Replacements& all) {
    const std::string* text = text_of(run_, "plan.toml");
    if (text == nullptr) return;
    const std::string edited = replaced(*text, all);
    if (edited == *text) return;
    try {
      add(what, parse_plan(edited, "edited plan"),
          "sed" + sed_words(all) + " " + shell_words({run_.plan_file}) + " > edited.toml\n" +
              again({}, "edited.toml"));
    } catch (const UserError&) {
      // The texts stand elsewhere in the plan, too: not an edit for this file.
    }
  }

  void move_layers() {
    const Bottleneck& slow = explanation_.bottleneck;
    const auto& stages = asked_.plan.virtual_workers[at(slow.virtual_worker)].stages;
    const PlanStage& stage = stages[at(slow.stage)];
    if (stage.end_layer - stage.first_layer < 2) return;
    for (const int step : {-1, 1}) {
      const int to = slow.stage + step;
      if (to < 0 || at(to) >= stages.size()) continue;
      const PlanStage& other = stages[at(to)];
      const int layer = step < 0 ? stage.first_layer : stage.end_layer - 1;
      const std::string what =
          format("move layer %d (%s) from stage %d to stage %d", layer,
                 asked_.request.profile->layers[at(layer)].name.c_str(), slow.stage, to);
      if (step < 0) {
        edit_file(what, {{layers_text(stage.first_layer, stage.end_layer),
                          layers_text(stage.first_layer + 1, stage.end_layer)},
                         {layers_text(other.first_layer, other.end_layer),
                          layers_text(other.first_layer, other.end_layer + 1)}});
      } else {
        edit_file(what, {{layers_text(stage.first_layer, stage.end_layer),
                          layers_text(stage.first_layer, stage.end_layer - 1)},
                         {layers_text(other.first_layer, other.end_layer),
                          layers_text(other.first_layer - 1, other.end_layer)}});
      }
    }
  }

  void more_in_flight() {
    const DepthLimit& depth = explanation_.depth;
    const std::string key = depth.what == "Nm" ? "in_flight" : "micro_batches";
    edit_file(
        format("set %s = %d (now %d)", key.c_str(), depth.tried, depth.now),
        {{format("%s = %d", key.c_str(), depth.now), format("%s = %d", key.c_str(), depth.tried)}});
  }

  void raise_distance() {
    if (!asked_.plan.server || !traits(asked_.parts.sync).bounded) return;
    Plan plan = asked_.plan;
    const int more = ++plan.server->clock_distance;
    const std::string what = format("raise the clock distance D to %d (now %d)", more, more - 1);
    if (run_.simulation) {
      edit_file(what,
                {{format("clock_distance = %d", more - 1), format("clock_distance = %d", more)}});
      return;
    }
    add(what, plan, again({"--clock-distance", std::to_string(more)}));
  }

  void narrow_pushes() {
    if (run_.simulation || !asked_.plan.server || asked_.plan.server->halves_pushes()) return;
    Plan plan = asked_.plan;
    plan.server->push_precision = "bf16";
    add("push in bf16", plan, again({"--push-precision", "bf16"}));
  }

  const ReportedRun& run_;
  const ExplainedPlan& asked_;
  const Explanation& explanation_;
  std::vector<RunEdit> edits_;
};

}  // namespace

std::optional<RunAdvice> advise(const ReportedRun& run, const std::vector<DeviceTime>& times,
                                std::string& why_not) {
  if (!run.cluster || !run.profile) {
    why_not = "the run directory lacks its cluster or its profile";
    return std::nullopt;
  }
  if (run.cluster->devices().size() > kMostDevices) {
    why_not = format("the pool has more than %zu devices", kMostDevices);
    return std::nullopt;
  }
  try {
    check_plan(run.plan, "plan", &*run.cluster, static_cast<int>(run.profile->layers.size()));
    const PlanRequest request = request_like(
        run.plan, *run.cluster,
        run.simulation ? *run.profile
                       : measured_profile(times, run.plan, *run.cluster, *run.profile));
    RunAdvice advice;
    advice.explanation = explain(request, run.plan);
    const ExplainedPlan asked{request, run.plan, composition(run.plan),
                              simulate(run.plan, request.cluster, request.profile, kOnlySpeed)};
    advice.throughput = asked.now.throughput;
    advice.edits = RunEdits(run, asked, advice.explanation).all();
    return advice;
  } catch (const UserError& error) {
    why_not = first_line(error.what());
    return std::nullopt;
  }
}

}  // namespace hetpipe
