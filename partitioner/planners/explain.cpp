// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/explain.h"

#include "base/error.h"
#include "base/text.h"
#include "partitioner/planners/explain_parts.h"
#include "partitioner/planners/explain_text.h"

namespace hetpipe {
void ExplainedPlan::answer(Alternative& alternative, const Plan& changed, double throughput) const {
  alternative.relative = relative(changed, throughput);
  alternative.throughput = throughput;
  alternative.relative_throughput = throughput / now.throughput - 1;
}

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
    check_plan(plan, "plan", &request.cluster, static_cast<int>(request.profile->layers.size()));
    if (const auto over = worst_overflow(asked, plan)) {
      answer.why_not = format(
          "stage %d of virtual worker %d would need %s more memory than there is", over->stage,
          over->virtual_worker, format_bytes(static_cast<double>(over->need.missing())).c_str());
      return answer;
    }
    asked.answer(answer, plan,
                 simulate(plan, request.cluster, request.profile, kOnlySpeed).throughput);
  } catch (const UserError& error) {
    answer.why_not = error.problems().front().text;
  }
  return answer;
}

Bottleneck find_bottleneck(const PlanRequest& request, const Plan& plan) {
  const ExplainedPlan asked{request, plan, composition(plan),
                            simulate(plan, request.cluster, request.profile, kOnlySpeed)};
  return bottleneck_of(asked, remedies_for(asked), faster_kinds(asked),
                       limit_of_depth(asked).limited_by != "memory");
}

Explanation explain(const PlanRequest& request, const Plan& plan) {
  const ExplainedPlan asked{request, plan, composition(plan),
                            simulate(plan, request.cluster, request.profile)};
  Explanation result;
  result.objective = objective_names()[request.weighs_lateness() ? 1 : 0];
  result.depth = limit_of_depth(asked);
  result.remedies = remedies_for(asked);
  result.devices = faster_kinds(asked);
  result.bottleneck =
      bottleneck_of(asked, result.remedies, result.devices, result.depth.limited_by != "memory");
  result.moves = moves_from(asked, result.bottleneck);
  result.leave_out = devices_left_out(asked);
  result.links = faster_links(asked);
  result.idle = idle_devices(asked);
  result.sentences = sentences(result, request, plan);
  return result;
}

}  // namespace hetpipe
