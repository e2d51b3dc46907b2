// SPDX-License-Identifier: Apache-2.0
#include "partitioner/browser/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "base/hash.h"
#include "base/json.h"
#include "partitioner/plan/unmeasured.h"
#include "partitioner/planners/changed_plan.h"
#include "partitioner/simulator/simulation_json.h"

namespace hetpipe {
namespace answer_test {

using testing::HasSubstr;

const Cluster kPool = test::cluster_of({{"fast", "slow"}, {"fast", "slow"}}, 1'000'000'000);
const Profile kChain = test::chain_of(
    12, {"fast", "slow"}, [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });

Plan planned() {
  PlanRequest request;
  request.cluster = kPool;
  request.profile = kChain;
  return make_plan(request);
}

Json question(const Plan& plan) {
  return {{"files", {{"cluster", "pool.toml"}, {"profile", "chain.toml"}, {"plan", "plan.toml"}}},
          {"cluster", to_toml(kPool)},
          {"profile", to_toml(kChain)},
          {"plan", to_toml(plan)}};
}

std::string first_problem(const Json& asked) {
  const Json answer = Json::parse(browser_answer(asked.dump()));
  EXPECT_FALSE(answer.contains("document"));
  const Json& problem = answer.at("problems").at(0);
  return problem.at("where").get<std::string>() + ": " + problem.at("text").get<std::string>();
}

TEST(BrowserAnswer, IsTheDocumentOfTheCommand) {
  const Plan plan = planned();
  Json asked = question(plan);
  EXPECT_EQ(
      Json::parse(browser_answer(asked.dump())).at("document").get<std::string>(),
      simulation_json(plan, simulate(plan, kPool, kChain), unmeasured_times(plan, kPool, kChain)));
  for (const std::string changes : {"inter x0.5, minibatch = 64", "-n0:1"}) {
    asked["changes"] = changes;
    const ChangedPlan changed = changed_plan(plan, kPool, kChain, changes, "--what-if");
    EXPECT_EQ(
        Json::parse(browser_answer(asked.dump())).at("document").get<std::string>(),
        simulation_json(changed.plan, simulate(changed.plan, changed.cluster, changed.profile),
                        unmeasured_times(changed.plan, changed.cluster, changed.profile),
                        SimulatedChange{changes, changed.planned_anew}));
  }
}

TEST(BrowserAnswer, WhatIsWrongIsSaidAsTheCommandDoes) {
  Json asked = question(planned());
  asked["changes"] = "inter y2";
  EXPECT_THAT(first_problem(asked), HasSubstr("--what-if: 'inter y2': says neither x nor =."));
  asked["changes"] = "";
  EXPECT_THAT(first_problem(asked), HasSubstr("contains an empty change"));
  Json broken = question(planned());
  broken["cluster"] = "format = 2";
  EXPECT_THAT(first_problem(broken), HasSubstr("pool.toml"));
  Plan other = planned();
  other.predicted->profile_hash = to_hex(hash_text("another"));
  EXPECT_THAT(first_problem(question(other)),
              HasSubstr("the plan was made with another profile than chain.toml"));
  EXPECT_THAT(first_problem(Json{{"cluster", ""}}), HasSubstr("request: "));
  EXPECT_THAT(Json::parse(browser_answer("{")).at("problems").at(0).at("text").get<std::string>(),
              HasSubstr("not JSON"));
}

}  // namespace answer_test
}  // namespace hetpipe
