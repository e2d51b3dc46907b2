// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cost/stage_cost.h"

#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/planners/partition.h"
#include "partitioner/planners/planner.h"

namespace hetpipe {
namespace stage_cost_test {

const Cluster kPool = test::cluster_of({{"fast", "slow"}, {"fast", "slow"}}, 1'000'000'000);
const Profile kChain = test::chain_of(
    9, {"fast", "slow"}, [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });

void expect_part_times(const Profile& profile) {
  PlanRequest request;
  request.cluster = kPool;
  request.profile = profile;
  request.policy = "ed";
  const Plan plan = plan_hetpipe(request);
  for (int vw = 0; vw < static_cast<int>(plan.virtual_workers.size()); ++vw) {
    const auto costs = stage_costs(plan, kPool, profile, VirtualWorkerId{vw});
    const Partition parts = evaluate_plan(kPool, profile, plan, VirtualWorkerId{vw});
    ASSERT_EQ(costs.size(), parts.costs.size());
    for (std::size_t k = 0; k < costs.size(); ++k) {
      EXPECT_DOUBLE_EQ(costs[k].forward, parts.costs[k].forward_seconds);
      EXPECT_DOUBLE_EQ(costs[k].backward, parts.costs[k].backward_seconds);
      EXPECT_DOUBLE_EQ(costs[k].receive_activations, parts.costs[k].receive_activations_seconds);
      EXPECT_DOUBLE_EQ(costs[k].receive_gradients, parts.costs[k].receive_gradients_seconds);
    }
  }
}

TEST(StageCost, StagesOfOneDeviceTakeTheirPartTime) {
  expect_part_times(kChain);
  Profile tied = kChain;
  tied.layers.back().shares = tied.layers.front().name;
  expect_part_times(tied);
}

// Samples 24 + 8 on fast and slow: 24/32 of 6 layers at 3 ms, 8/32 of 6 at 6 ms; the slower is
// fast. The stage after it receives 24/32 and 8/32 of 4000 bytes, the larger over the node's link.
TEST(StageCost, AReplicatedStageTakesItsSlowestReplica) {
  Plan plan;
  plan.system = "gpipe";
  plan.minibatch = 64;
  plan.micro_batches = 2;
  plan.virtual_workers.resize(1);
  plan.virtual_workers[0].stages.resize(2);
  plan.virtual_workers[0].stages[0] = {0, 6, {{"n0", 0}, {"n0", 1}}, {24, 8}, true, {}};
  plan.virtual_workers[0].stages[1] = {6, 9, {{"n1", 0}}, {}, false, {}};
  const auto costs = stage_costs(plan, kPool, kChain, VirtualWorkerId{0});
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_NEAR(costs[0].forward, 2 * 6 * 0.75e-3, 1e-12);
  EXPECT_NEAR(costs[0].backward, 3 * 2 * 6 * 0.75e-3, 1e-12);  // it runs its forward again
  EXPECT_NEAR(costs[1].receive_activations, 2 * (50e-6 + 3000 / 1e9), 1e-12);
  EXPECT_NEAR(costs[0].receive_gradients, 2 * (50e-6 + 3000 / 1e9), 1e-12);
  EXPECT_EQ(costs[1].receive_gradients, 0);
}

}  // namespace stage_cost_test
}  // namespace hetpipe
