// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/explain_text.h"

#include <cmath>

#include "base/text.h"
#include "partitioner/plan/plan_table_parts.h"
#include "partitioner/planners/explain_parts.h"

namespace hetpipe {
namespace {

// "+6.2 %", "no change (within 0.5 %)".
std::string change_text(double relative) {
  if (std::abs(relative) < kVisibleChange) return "no change (within 0.5 %)";
  return format("%+.1f %%", 100 * relative);
}

// Where several stand side by side.
std::string brief_change(double relative) {
  return std::abs(relative) < kVisibleChange ? "no change" : change_text(relative);
}

std::string bottleneck_text(const Bottleneck& b, const PlanRequest& request) {
  const bool receives = b.limited_by == "bandwidth" || b.limited_by == "latency";
  const bool computes = b.limited_by == "compute";
  std::string text = format(
      "%s is stage %d of virtual worker %d, on %s (%s): %s per minibatch, %s of it computing and "
      "%s "
      "receiving. ",
      computes   ? "The bottleneck"
      : receives ? "The stage that receives longest"
                 : "The longest stage",
      b.stage, b.virtual_worker, to_string(b.device).c_str(),
      request.cluster.kind_of(b.device).name.c_str(),
      format_seconds(b.compute_seconds + b.receive_seconds).c_str(),
      format_seconds(b.compute_seconds).c_str(), format_seconds(b.receive_seconds).c_str());
  return text + format(
                    "In simulation it computes %.0f %% of the time, waits %.0f %% for messages in "
                    "transit and %.0f %% for other stages or parameters.",
                    100 * b.busy, 100 * b.communication, 100 * b.bubble);
}

// What limits, in words.
std::string limit_named(const std::string& limit, const DepthLimit& depth) {
  if (limit == "bandwidth") return "the links' bandwidth";
  if (limit == "latency") return "the links' latency";
  if (limit != "depth") return limit;
  return depth.what == "Nm" ? "the number of minibatches in flight" : "the number of micro-batches";
}

std::string limit_text(const Explanation& explanation) {
  const Remedies& r = explanation.remedies;
  std::string text = format(
      "Devices twice as fast would give %s, twice the bandwidth of all links %s, half their "
      "latency "
      "%s",
      brief_change(r.compute).c_str(), brief_change(r.bandwidth).c_str(),
      brief_change(r.latency).c_str());
  const DepthLimit& depth = explanation.depth;
  if (r.depth) {
    text += format(", more %s %s", depth.what == "Nm" ? "minibatches in flight" : "micro-batches",
                   brief_change(*r.depth).c_str());
  }
  const Bottleneck& b = explanation.bottleneck;
  if (b.limited_by.empty()) return text + ": none of these alone limits it.";
  if (b.limited_by == "compute and bandwidth") {
    return text + ": compute and the links' bandwidth limit it together, neither alone.";
  }
  if (b.limited_by == "memory") {
    return text + ": memory limits it, of which that needs more.";
  }
  if (b.limited_by == "depth") {
    return text + ": what limits these devices is " + limit_named(b.limited_by, depth) + ".";
  }
  text += ": " + limit_named(b.limited_by, depth) + " limits it";
  if (!b.second.empty()) text += " most, then " + limit_named(b.second, depth);
  const std::vector<Alternative>& links = explanation.links;
  if (b.limited_by == "bandwidth" && links.size() > 1 &&
      links.front().relative.value_or(0) >= kVisibleChange) {
    text += ", above all " + links.front().what;
  }
  return text + ".";
}

std::string move_text(const Alternative& move) {
  if (!move.relative) return "Cannot " + move.what + ": " + move.why_not + ".";
  return "If you " + move.what + ": " + change_text(*move.relative) + ".";
}

std::string depth_text(const DepthLimit& depth, const PlanRequest& request) {
  const std::string now = format("%s = %d", depth.what.c_str(), depth.now);
  if (depth.limited_by == "memory") {
    const DeviceKind& kind = request.cluster.kind_of(depth.device);
    return format(
        "%s is limited by memory: with %d, stage %d of virtual worker %d would need %s "
        "more than the %s of %s (%s).",
        now.c_str(), depth.tried, depth.stage, depth.virtual_worker,
        format_bytes(static_cast<double>(depth.missing_bytes)).c_str(),
        memory_for_plans(kind).c_str(), to_string(depth.device).c_str(), kind.name.c_str());
  }
  if (!depth.relative) {
    return format("%s: %d cannot be tried (%s).", now.c_str(), depth.tried, depth.why_not.c_str());
  }
  if (depth.limited_by == "throughput") {
    return format("%s is enough: the samples/s no longer grow (%d: %s; there is memory for it).",
                  now.c_str(), depth.tried, change_text(depth.relative_throughput).c_str());
  }
  if (depth.limited_by == "accuracy") {
    return format(
        "%s is enough: %d gives %s samples/s, but updates come later, so that an accuracy takes %s "
        "samples (an estimate: docs/planners.md).",
        now.c_str(), depth.tried, change_text(depth.relative_throughput).c_str(),
        change_text(depth.samples).c_str());
  }
  return format("%s could be higher: %d fits and gives %s.", now.c_str(), depth.tried,
                change_text(*depth.relative).c_str());
}

// Of another plan: its samples/s, too, where something else counts.
std::string both_changes(const Alternative& answer, const Explanation& explanation) {
  std::string text = change_text(*answer.relative);
  const bool differs = std::abs(*answer.relative - answer.relative_throughput) >= kVisibleChange;
  if (explanation.objective != objective_names().front() && differs) {
    text += ", samples/s " + change_text(answer.relative_throughput);
  }
  return text;
}

std::string leave_out_text(const Explanation& explanation, const Plan& plan) {
  const auto& answers = explanation.leave_out;
  if (answers.empty()) {
    return plan.worker_ranks() < 2
               ? "Only one device is in use; it cannot be left out."
               : format("Leaving devices out was not tried (%d are in use; up to %d would be).",
                        plan.worker_ranks(), kMostDevicesToLeaveOut);
  }
  const Alternative& best = answers.front();
  if (!best.relative) {
    return "No device can be left out: without " + best.what + ", " + best.why_not;
  }
  std::string text;
  if (*best.relative > kVisibleChange) {
    text =
        "Worth leaving out: " + best.what + ", " + both_changes(best, explanation) + " without it";
  } else {
    text = "No device is worth leaving out; the least useful is " + best.what + " (" +
           change_text(*best.relative) + ")";
  }
  const Alternative* dearest = nullptr;
  for (const Alternative& answer : answers) {
    if (answer.relative) dearest = &answer;
  }
  if (dearest != &best) {
    text += ", the most useful " + dearest->what + " (" + both_changes(*dearest, explanation) + ")";
  }
  return text + ".";
}

// Those that change something, then those that do not: of `what` that is done to each.
std::string each_text(const std::string& what, const std::string& any,
                      const std::vector<Alternative>& answers) {
  std::vector<std::string> parts;
  std::vector<std::string> idle;
  for (const Alternative& answer : answers) {
    if (std::abs(*answer.relative) < kVisibleChange) {
      idle.push_back(answer.what);
    } else {
      parts.push_back(answer.what + " " + change_text(*answer.relative));
    }
  }
  if (parts.empty()) return what + " of any " + any + " would change nothing (within 0.5 %).";
  std::string text = what + " would give: " + join(parts, ", ");
  if (!idle.empty()) text += "; no change " + join(idle, ", ");
  return text + ".";
}

}  // namespace

std::vector<std::string> sentences(const Explanation& explanation, const PlanRequest& request,
                                   const Plan& plan) {
  std::vector<std::string> all{bottleneck_text(explanation.bottleneck, request),
                               limit_text(explanation)};
  if (request.weighs_lateness()) {
    all.emplace_back(
        "Changes are of what samples/s are worth by --objective time-to-accuracy, where nothing "
        "else is said.");
  }
  for (const Alternative& move : explanation.moves) all.push_back(move_text(move));
  all.push_back(depth_text(explanation.depth, request));
  if (!explanation.idle.empty()) {
    all.push_back("Left idle by the plan: " + abridged(explanation.idle, 8, ", ") + ".");
  }
  all.push_back(leave_out_text(explanation, plan));
  if (!explanation.devices.empty()) {
    all.push_back(each_text("Doubling the speed", "type of device", explanation.devices));
  }
  all.push_back(each_text("Doubling the bandwidth", "link", explanation.links));
  return all;
}

}  // namespace hetpipe
