// SPDX-License-Identifier: Apache-2.0
#include "launch/plan/plan_json.h"

#include <gtest/gtest.h>

#include "base/json.h"

namespace hetpipe {
namespace plan_json_test {

TEST(PlanJson, HasTheKeysOfThePlanFile) {
  const Plan plan = parse_plan(
      "format = 1\nsystem = \"hetpipe\"\nmodel = \"a \\\"b\\\"\"\nminibatch = 32\nin_flight = 4\n"
      "[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 12]\ndevices = [\"n0:0\"]\n"
      "[[virtual_worker.stage]]\nlayers = [12, 20]\ndevices = [\"n0:1\"]\n"
      "[parameter_server]\nnodes = [\"n0\"]\nclock_distance = 2\n"
      "[predicted]\nthroughput = 530.0\nbottleneck = 0.0603\n",
      "plan.toml");
  const Json json = Json::parse(plan_json(plan, PlanNotes{}));
  EXPECT_EQ(json.at("format"), 1);
  EXPECT_EQ(json.at("model"), "a \"b\"");
  EXPECT_EQ(json.at("in_flight"), 4);
  ASSERT_EQ(json.at("virtual_worker").size(), 1u);
  const Json& stages = json.at("virtual_worker").at(0).at("stage");
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages.at(1).at("layers"), (std::vector<int>{12, 20}));
  EXPECT_EQ(stages.at(0).at("devices"), std::vector<std::string>{"n0:0"});
  EXPECT_EQ(json.at("parameter_server").at("clock_distance"), 2);
  EXPECT_EQ(json.at("predicted").at("throughput"), 530.0);
  EXPECT_EQ(json.at("predicted").at("bottleneck"), 0.0603);
}

}  // namespace plan_json_test
}  // namespace hetpipe
