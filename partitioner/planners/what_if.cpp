// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/what_if.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/plan/system.h"

namespace hetpipe {
namespace {

Answer no_answer(const std::string& change, const Cluster& cluster, const UserError& error) {
  Answer answer;
  answer.change = change;
  answer.devices = static_cast<int>(cluster.devices().size());
  std::vector<std::string> reasons;
  for (const Problem& problem : error.problems()) {
    reasons.push_back(problem.where.empty() ? problem.text : problem.where + ": " + problem.text);
  }
  answer.why_not = join(reasons, "\n");
  return answer;
}

}  // namespace

Answer judged(const Plan& plan, const Cluster& cluster, const Profile& profile) {
  Answer answer;
  answer.plan = plan;
  answer.throughput = plan.predicted ? plan.predicted->throughput : 0;
  answer.devices = static_cast<int>(cluster.devices().size());
  answer.idle = answer.devices - plan.worker_ranks();
  answer.unmeasured = unmeasured_times(plan, cluster, profile);
  double longest = -1;
  double fullest = -1;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    const VirtualWorkerId id{static_cast<int>(vw)};
    const auto costs = stage_costs(plan, cluster, profile, id);
    for (std::size_t k = 0; k < costs.size(); ++k) {
      const PlanStage& stage = plan.virtual_workers[vw].stages[k];
      const auto named = [&](const DeviceName& device) {
        return to_string(device) + " " + cluster.kind_of(device).name;
      };
      if (costs[k].total() > longest) {
        longest = costs[k].total();
        answer.bottleneck =
            format("w%zu s%zu on %s, %s", vw, k, named(stage.devices.front()).c_str(),
                   costs[k].compute() >= costs[k].receive() ? "compute" : "communication");
      }
      const StageNeed need =
          fullest_replica(plan, cluster, profile, id, StageId{static_cast<int>(k)});
      if (need.full() <= fullest) continue;
      fullest = need.full();
      answer.fullest = named(need.device) + format(", %.0f %%", 100 * fullest);
    }
  }
  return answer;
}

std::vector<Answer> what_if(const PlanRequest& request, const Plan& plan,
                            const std::vector<ChangedPool>& pools) {
  std::vector<Answer> answers{judged(plan, request.cluster, request.profile)};
  const double before = answers.front().throughput;
  for (const ChangedPool& pool : pools) {
    PlanRequest changed = request;
    changed.cluster = pool.cluster;
    changed.profile = pool.profile;
    try {
      Answer answer = judged(make_plan(changed), pool.cluster, pool.profile);
      answer.change = pool.change;
      answer.relative = before > 0 ? answer.throughput / before - 1 : 0;
      answers.push_back(std::move(answer));
    } catch (const UserError& error) {
      answers.push_back(no_answer(pool.change, pool.cluster, error));
    }
  }
  return answers;
}

std::string what_if_table(const std::vector<Answer>& answers) {
  Table table({"pool", "devices", "idle", "samples/s", "change", "workers", "Nm", "D", "bottleneck",
               "fullest device"});
  std::string failures;
  for (const Answer& answer : answers) {
    const std::string name = answer.change.empty() ? "as it is" : answer.change;
    if (!answer.plan) {
      table.add({name, std::to_string(answer.devices), "", "none", "", "", "", "", "", ""});
      failures += name + ": " + first_line(answer.why_not) + "\n";
      continue;
    }
    const Plan& plan = *answer.plan;
    const bool drained = traits(composition(plan).schedule).has_flush;
    table.add({name, std::to_string(answer.devices), std::to_string(answer.idle),
               format("%.4g", answer.throughput),
               answer.change.empty() ? "" : format("%+.1f %%", 100 * answer.relative),
               std::to_string(plan.virtual_workers.size()),
               drained ? "-" : std::to_string(plan.in_flight),
               plan.server ? std::to_string(plan.server->clock_distance) : "-", answer.bottleneck,
               answer.fullest});
  }
  return table.text() + failures;
}

}  // namespace hetpipe
