// SPDX-License-Identifier: Apache-2.0
#include "partitioner/browser/answer.h"

#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "partitioner/plan/made_for.h"
#include "partitioner/planners/changed_plan.h"
#include "partitioner/profile/estimate.h"
#include "partitioner/simulator/simulate.h"
#include "partitioner/simulator/simulation_json.h"

namespace hetpipe {
namespace {

std::string document_for(const Json& request) {
  const auto text = [&](const char* key) { return request.at(key).get<std::string>(); };
  const auto name = [&](const char* key) { return request.at("files").at(key).get<std::string>(); };
  const std::string plan_text = text("plan");
  Cluster cluster = parse_cluster(text("cluster"), name("cluster"));
  Profile profile = parse_profile(text("profile"), name("profile"));
  const Plan unchecked = parse_plan(plan_text, name("plan"), &profile);
  profile = with_estimates(
      std::move(profile), cluster, unchecked.precision,
      [&](const DeviceKind&) { return name("cluster"); }, unchecked.runtime);
  Plan plan = parse_plan(plan_text, name("plan"), cluster, profile);
  check_made_for(plan, cluster, profile,
                 {name("plan"), plan_text, name("cluster"), name("profile")});
  std::optional<SimulatedChange> change;
  if (request.contains("changes")) {
    const std::string changes = text("changes");
    ChangedPlan changed = changed_plan(plan, cluster, profile, changes, "--what-if");
    change = {changes, changed.planned_anew};
    plan = std::move(changed.plan);
    cluster = std::move(changed.cluster);
    profile = std::move(changed.profile);
  }
  return simulation_json(plan, simulate(plan, cluster, profile),
                         unmeasured_times(plan, cluster, profile), change);
}

}  // namespace

std::string browser_answer(std::string_view request) {
  Json problems = Json::array();
  try {
    return Json{{"document", document_for(Json::parse(request))}}.dump();
  } catch (const UserError& error) {
    for (const Problem& problem : error.problems()) {
      problems.push_back({{"where", problem.where}, {"text", problem.text}});
    }
  } catch (const JsonError& error) {
    problems.push_back({{"where", "request"}, {"text", error.what()}});
  }
  return Json{{"problems", std::move(problems)}}.dump();
}

}  // namespace hetpipe
