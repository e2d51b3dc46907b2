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

TEST(PlanJson, AnswersStandBesideThePlan) {
  PlanNotes notes;
  Answer& answer = notes.answers.emplace_back();
  answer.change = "inter x2";
  answer.plan = Plan{};
  answer.plan->minibatch = 64;
  answer.throughput = 100;
  answer.worth = 80;
  answer.relative = -0.2;
  answer.relative_throughput = 0.25;
  Explanation& explained = notes.explanation.emplace();
  explained.objective = "time-to-accuracy";
  explained.bottleneck.limited_by = "bandwidth";
  explained.remedies = {.compute = 0, .bandwidth = 0.5, .latency = 0, .depth = {}};
  notes.epochs = EpochsTime{.epochs = 2, .dataset_size = 600, .throughput = 100};
  notes.largest = LargestMinibatch{.minibatch = 96, .next = 97, .missing_bytes = 5};
  notes.global_batch = 128;
  notes.batched = {
      {.system = "gpipe", .plan = Plan{}, .why_not = "", .throughput = 70, .worth = 60},
      {.system = "ssp", .plan = {}, .why_not = "too large"}};
  const Json json = Json::parse(plan_json(Plan{}, notes));
  const Json& asked = json.at("what_if").at(0);
  EXPECT_EQ(asked.at("throughput"), 100);
  EXPECT_EQ(asked.at("worth"), 80);
  EXPECT_EQ(asked.at("relative"), -0.2);
  EXPECT_EQ(asked.at("relative_throughput"), 0.25);
  EXPECT_EQ(asked.at("minibatch"), 64);
  EXPECT_EQ(json.at("explain").at("objective"), "time-to-accuracy");
  EXPECT_EQ(json.at("explain").at("bottleneck").at("limited_by"), "bandwidth");
  EXPECT_EQ(json.at("explain").at("remedies").at("bandwidth"), 0.5);
  EXPECT_TRUE(json.at("explain").at("remedies").at("depth").is_null());
  EXPECT_EQ(json.at("epochs").at("seconds"), 12);
  EXPECT_EQ(json.at("largest_minibatch").at("minibatch"), 96);
  EXPECT_EQ(json.at("global_batch").at("samples"), 128);
  EXPECT_EQ(json.at("global_batch").at("systems").at(0).at("throughput"), 70);
  EXPECT_EQ(json.at("global_batch").at("systems").at(1).at("why_not"), "too large");
}

}  // namespace plan_json_test
}  // namespace hetpipe
