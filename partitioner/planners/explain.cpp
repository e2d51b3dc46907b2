// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/explain.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/planners/explain_parts.h"
#include "partitioner/planners/explain_text.h"

namespace hetpipe {
namespace {

Bottleneck bottleneck_of(const ExplainedPlan& asked) {
  Bottleneck worst;
  double longest = -1;
  for (std::size_t vw = 0; vw < asked.plan.virtual_workers.size(); ++vw) {
    const VirtualWorkerId id{static_cast<int>(vw)};
    const auto costs = stage_costs(asked.plan, asked.request.cluster, asked.request.profile, id);
    for (std::size_t k = 0; k < costs.size(); ++k) {
      if (costs[k].total() <= longest) continue;
      longest = costs[k].total();
      worst.virtual_worker = id.value;
      worst.stage = static_cast<int>(k);
      worst.compute_seconds = costs[k].compute();
      worst.receive_seconds = costs[k].receive();
    }
  }
  // Of its replicas the busiest.
  const auto vw = static_cast<std::size_t>(worst.virtual_worker);
  const auto& devices =
      asked.plan.virtual_workers[vw].stages[static_cast<std::size_t>(worst.stage)].devices;
  worst.device = devices.front();
  double busiest = -1;
  for (const SimulatedStage& row : asked.now.stages) {
    if (std::find(devices.begin(), devices.end(), row.device) == devices.end()) continue;
    if (row.busy <= busiest) continue;
    busiest = row.busy;
    worst.device = row.device;
    worst.busy = row.busy;
    worst.communication = row.communication;
    worst.bubble = row.bubble;
  }
  const double most = std::max({worst.busy, worst.communication, worst.bubble});
  worst.limited_by = most == worst.busy            ? "compute"
                     : most == worst.communication ? "communication"
                                                   : "bubble";
  return worst;
}

}  // namespace

std::optional<Overflow> worst_overflow(const ExplainedPlan& asked, const Plan& plan) {
  std::optional<Overflow> worst;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      Overflow here{static_cast<int>(vw), static_cast<int>(k), {}};
      here.need = fullest_replica(plan, asked.request.cluster, asked.request.profile,
                                  VirtualWorkerId{here.virtual_worker}, StageId{here.stage});
      if (here.need.missing() <= 0) continue;
      if (!worst || here.need.missing() > worst->need.missing()) worst = std::move(here);
    }
  }
  return worst;
}

Alternative tried(const ExplainedPlan& asked, std::string what, const Plan& plan) {
  const PlanRequest& request = asked.request;
  Alternative answer;
  answer.what = std::move(what);
  try {
    check_plan(plan, "plan", &request.cluster, static_cast<int>(request.profile.layers.size()));
    if (const auto over = worst_overflow(asked, plan)) {
      answer.why_not = format(
          "stage %d of virtual worker %d would need %s more memory than there is", over->stage,
          over->virtual_worker, format_bytes(static_cast<double>(over->need.missing())).c_str());
      return answer;
    }
    answer.relative = asked.relative(simulate(plan, request.cluster, request.profile).throughput);
  } catch (const UserError& error) {
    answer.why_not = error.problems().front().text;
  }
  return answer;
}

Explanation explain(const PlanRequest& request, const Plan& plan) {
  const ExplainedPlan asked{request, plan, composition(plan),
                            simulate(plan, request.cluster, request.profile)};
  Explanation result;
  result.bottleneck = bottleneck_of(asked);
  result.moves = moves_from(asked, result.bottleneck);
  result.depth = limit_of_depth(asked);
  result.leave_out = devices_left_out(asked);
  result.links = faster_links(asked);
  result.idle = idle_devices(asked);
  result.sentences = sentences(result, request, plan);
  return result;
}

}  // namespace hetpipe
