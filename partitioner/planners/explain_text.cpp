// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/explain_text.h"

#include <cmath>

#include "base/text.h"
#include "partitioner/plan/plan_table_parts.h"

namespace hetpipe {
namespace {

// Less than this is within what the choice of the simulated window decides.
constexpr double kVisible = 5e-3;

// "+6.2 %", "no change (within 0.5 %)".
std::string change_text(double relative) {
  if (std::abs(relative) < kVisible) return "no change (within 0.5 %)";
  return format("%+.1f %%", 100 * relative);
}

std::string bottleneck_text(const Bottleneck& b, const PlanRequest& request) {
  std::string text = format(
      "The bottleneck is stage %d of virtual worker %d, on %s (%s): %s per minibatch, %s of it "
      "computing and %s receiving. ",
      b.stage, b.virtual_worker, to_string(b.device).c_str(),
      request.cluster.kind_of(b.device).name.c_str(),
      format_seconds(b.compute_seconds + b.receive_seconds).c_str(),
      format_seconds(b.compute_seconds).c_str(), format_seconds(b.receive_seconds).c_str());
  text += format(
      "In simulation it computes %.0f %% of the time, waits %.0f %% for messages in transit "
      "and %.0f %% for other stages or parameters: ",
      100 * b.busy, 100 * b.communication, 100 * b.bubble);
  if (b.limited_by == "compute") return text + "compute limits it.";
  if (b.limited_by == "communication") return text + "communication limits it.";
  return text +
         "it mostly waits, so more minibatches in flight or faster links help, another partition "
         "does not.";
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
    return format("%s is enough: throughput no longer grows (%d: %s; there is memory for it).",
                  now.c_str(), depth.tried, change_text(*depth.relative).c_str());
  }
  if (depth.limited_by == "accuracy") {
    return format(
        "%s is enough: %d gives %s samples/s, but updates come later, so that an accuracy takes %s "
        "samples (an estimate: docs/planners.md).",
        now.c_str(), depth.tried, change_text(*depth.relative).c_str(),
        change_text(depth.samples).c_str());
  }
  return format("%s could be higher: %d fits and gives %s.", now.c_str(), depth.tried,
                change_text(*depth.relative).c_str());
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
  if (*best.relative > kVisible) {
    text = "Worth leaving out: " + best.what + ", " + change_text(*best.relative) + " without it";
  } else {
    text = "No device is worth leaving out; the least useful is " + best.what + " (" +
           change_text(*best.relative) + ")";
  }
  const Alternative* dearest = nullptr;
  for (const Alternative& answer : answers) {
    if (answer.relative) dearest = &answer;
  }
  if (dearest != &best) {
    text += ", the most useful " + dearest->what + " (" + change_text(*dearest->relative) + ")";
  }
  return text + ".";
}

std::string links_text(const std::vector<Alternative>& links) {
  std::vector<std::string> parts;
  std::vector<std::string> idle;
  for (const Alternative& link : links) {
    if (std::abs(*link.relative) < kVisible) {
      idle.push_back(link.what);
    } else {
      parts.push_back(link.what + " " + change_text(*link.relative));
    }
  }
  if (parts.empty())
    return "Doubling the bandwidth of any link would change nothing (within 0.5 %).";
  std::string text = "Doubling the bandwidth would give: " + join(parts, ", ");
  if (!idle.empty()) text += "; no change " + join(idle, ", ");
  return text + ".";
}

}  // namespace

std::vector<std::string> sentences(const Explanation& explanation, const PlanRequest& request,
                                   const Plan& plan) {
  std::vector<std::string> all{bottleneck_text(explanation.bottleneck, request)};
  for (const Alternative& move : explanation.moves) all.push_back(move_text(move));
  all.push_back(depth_text(explanation.depth, request));
  if (!explanation.idle.empty()) {
    all.push_back("Left idle by the plan: " + abridged(explanation.idle, 8, ", ") + ".");
  }
  all.push_back(leave_out_text(explanation, plan));
  all.push_back(links_text(explanation.links));
  return all;
}

}  // namespace hetpipe
