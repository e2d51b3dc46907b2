// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/what_if.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/cost/memory.h"
#include "partitioner/plan/system.h"
#include "partitioner/planners/explain.h"

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

Answer judged(const PlanRequest& request, const Plan& plan) {
  const Cluster& cluster = request.cluster;
  Answer answer;
  answer.plan = plan;
  answer.throughput = plan.predicted ? plan.predicted->throughput : 0;
  answer.worth = request.worth(plan, answer.throughput);
  answer.devices = static_cast<int>(cluster.devices().size());
  answer.idle = answer.devices - plan.worker_ranks();
  answer.unmeasured = unmeasured_times(plan, cluster, request.profile);
  const auto named = [&](const DeviceName& device) {
    return to_string(device) + " " + cluster.kind_of(device).name;
  };
  const Bottleneck at = find_bottleneck(request, plan);
  answer.bottleneck =
      format("w%d s%d on %s", at.virtual_worker, at.stage, named(at.device).c_str());
  if (!at.limited_by.empty()) answer.bottleneck += ", " + at.limited_by;
  double fullest = -1;
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    const VirtualWorkerId id{static_cast<int>(vw)};
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const StageNeed need =
          fullest_replica(plan, cluster, request.profile, id, StageId{static_cast<int>(k)});
      if (need.full() <= fullest) continue;
      fullest = need.full();
      answer.fullest = named(need.device) + format(", %.0f %%", 100 * fullest);
    }
  }
  return answer;
}

std::vector<Answer> what_if(const PlanRequest& request, const Plan& plan,
                            const std::vector<ChangedPool>& pools) {
  std::vector<Answer> answers{judged(request, plan)};
  const auto relative = [](double now, double before) { return before > 0 ? now / before - 1 : 0; };
  for (const ChangedPool& pool : pools) {
    PlanRequest changed = request;
    changed.cluster = pool.cluster;
    changed.profile = pool.profile;
    const PlanSettings& set = pool.settings;
    if (set.minibatch) changed.minibatch = set.minibatch;
    if (set.in_flight) changed.in_flight = set.in_flight;
    if (set.clock_distance) changed.clock_distance = set.clock_distance;
    try {
      Answer answer = judged(changed, make_plan(changed));
      answer.change = pool.change;
      answer.relative = relative(answer.worth, answers.front().worth);
      answer.relative_throughput = relative(answer.throughput, answers.front().throughput);
      answers.push_back(std::move(answer));
    } catch (const UserError& error) {
      answers.push_back(no_answer(pool.change, pool.cluster, error));
    }
  }
  return answers;
}

std::string what_if_table(const std::vector<Answer>& answers, const PlanRequest& request) {
  const bool late = request.weighs_lateness();
  std::vector<std::string> columns{"pool", "devices", "idle", "samples/s"};
  if (late) columns.emplace_back("worth, samples/s");
  columns.emplace_back(late ? "change of worth" : "change of samples/s");
  for (const char* name : {"workers", "minibatch", "Nm", "D", "bottleneck", "fullest device"}) {
    columns.emplace_back(name);
  }
  Table table(columns);
  std::string failures;
  for (const Answer& answer : answers) {
    const std::string name = answer.change.empty() ? "as it is" : answer.change;
    std::vector<std::string> cells{name, std::to_string(answer.devices)};
    if (!answer.plan) {
      cells.insert(cells.end(), {"", "none"});
      cells.resize(columns.size());
      table.add(cells);
      failures += name + ": " + first_line(answer.why_not) + "\n";
      continue;
    }
    const Plan& plan = *answer.plan;
    const bool drained = traits(composition(plan).schedule).has_flush;
    cells.push_back(std::to_string(answer.idle));
    cells.push_back(format("%.4g", answer.throughput));
    if (late) cells.push_back(format("%.4g", answer.worth));
    cells.push_back(answer.change.empty() ? "" : format("%+.1f %%", 100 * answer.relative));
    cells.push_back(std::to_string(plan.virtual_workers.size()));
    cells.push_back(std::to_string(plan.minibatch));
    cells.push_back(drained ? "-" : std::to_string(plan.in_flight));
    cells.push_back(plan.server ? std::to_string(plan.server->clock_distance) : "-");
    cells.push_back(answer.bottleneck);
    cells.push_back(answer.fullest);
    table.add(cells);
  }
  return table.text() + failures;
}

}  // namespace hetpipe
