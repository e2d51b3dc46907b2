// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "partitioner/planners/planner.h"

namespace hetpipe {
namespace system_test {

using testing::HasSubstr;

TEST(System, EveryRowMakesSense) {
  for (const System& row : systems()) EXPECT_EQ(why_senseless(row), "") << row.name;
}

TEST(System, PredictionsNeedTheOptimizerAtTheStages) {
  for (System row : systems()) {
    row.sync = SyncRule::server_step;
    const bool predicts = row.name == "spectrain" || row.name == "xpipe";
    EXPECT_EQ(why_senseless(row).empty(), !predicts) << row.name;
  }
}

// Their memory and time are those of plain SGD.
TEST(System, StagesOfServersWithTheOptimizerHaveNoStateOfIt) {
  System row = system_named("hetpipe");
  EXPECT_EQ(optimizer_of_stages(row, "adam"), "adam");
  EXPECT_EQ(updates_of(row, "adam"), Updates::damped);
  row.sync = SyncRule::server_step;
  EXPECT_EQ(optimizer_of_stages(row, "adam"), "sgd");
  EXPECT_EQ(updates_of(row, "adam"), Updates::plain);
  EXPECT_EQ(usual_scale(row, "adam"), "mean");
}

Plan two_stages(int in_flight) {
  Plan plan;
  plan.system = "gpipe";
  plan.schedule = "continuous-1f1b";
  plan.in_flight = in_flight;
  plan.virtual_workers.resize(1);
  plan.virtual_workers[0].stages.resize(2);
  return plan;
}

TEST(System, OneVersionNeedsAFlushOrOneInFlight) {
  EXPECT_THAT(why_senseless(two_stages(3)), HasSubstr("'one-version' with 3 minibatches"));
  EXPECT_EQ(why_senseless(two_stages(1)), "");
  Plan one_stage = two_stages(3);
  one_stage.virtual_workers[0].stages.pop_back();
  EXPECT_EQ(why_senseless(one_stage), "");
  Plan drained = two_stages(3);
  drained.schedule = "gpipe";
  EXPECT_EQ(why_senseless(drained), "");
}

TEST(System, APlanFileOfOneVersionThatIsNeverDrainedIsRefused) {
  const auto file = [](int in_flight) {
    return "format = 1\nsystem = \"gpipe\"\nschedule = \"continuous-1f1b\"\nmodel = \"m\"\n"
           "minibatch = 4\nin_flight = " +
           std::to_string(in_flight) +
           "\n[[virtual_worker]]\n[[virtual_worker.stage]]\nlayers = [0, 1]\n"
           "devices = [\"n0:0\"]\n[[virtual_worker.stage]]\nlayers = [1, 2]\n"
           "devices = [\"n0:1\"]\n";
  };
  EXPECT_NO_THROW(parse_plan(file(1), "p.toml"));
  try {
    parse_plan(file(2), "p.toml");
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("p.toml:3: weights 'one-version' with 2 minibatches"));
    EXPECT_THAT(error.what(), HasSubstr("Use weights that work with that schedule: stash, "));
  }
}

TEST(System, NoPlanOfOneVersionForAPipelineThatIsNeverDrained) {
  PlanRequest request;
  request.system = "gpipe";
  request.schedule = "continuous-1f1b";
  try {
    check_request(request);
    FAIL() << "accepted";
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("--weights stash"));
  }
  request.in_flight = 1;
  EXPECT_NO_THROW(check_request(request));
}

}  // namespace system_test
}  // namespace hetpipe
