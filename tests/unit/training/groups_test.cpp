// SPDX-License-Identifier: Apache-2.0
#include "runtime/training/groups.h"

#include <gtest/gtest.h>

namespace hetpipe {
namespace groups_test {

Plan plan_of(const std::string& system, int stages, int in_flight, int micro_batches) {
  Plan plan;
  plan.system = system;
  plan.in_flight = in_flight;
  plan.micro_batches = micro_batches;
  PlanVirtualWorker& vw = plan.virtual_workers.emplace_back();
  for (int k = 0; k < stages; ++k) {
    PlanStage& stage = vw.stages.emplace_back();
    stage.first_layer = k;
    stage.end_layer = k + 1;
    stage.devices = {{"n0", k}};
  }
  return plan;
}

TEST(RunAhead, FollowsFromTheOrdersOfActions) {
  EXPECT_EQ(run_ahead(plan_of("gpipe", 3, 1, 4)).held, 1);
  EXPECT_EQ(run_ahead(plan_of("pipedream", 3, 3, 1)).held, 3);
  EXPECT_EQ(run_ahead(plan_of("pipedream", 3, 5, 1)).held, 5);
  EXPECT_EQ(run_ahead(plan_of("pipedream", 3, 3, 1)).between_sums, 1);
  EXPECT_EQ(run_ahead(plan_of("pipedream-2bw", 3, 3, 1)).between_sums, 3);
  // Two chunks on each of two devices.
  Plan chunks = plan_of("dapple", 4, 1, 4);
  chunks.schedule = "interleaved-1f1b";
  for (int k = 0; k < 4; ++k) chunks.virtual_workers[0].stages[k].devices = {{"n0", k % 2}};
  EXPECT_EQ(run_ahead(chunks).held, 1);
}

}  // namespace groups_test
}  // namespace hetpipe
