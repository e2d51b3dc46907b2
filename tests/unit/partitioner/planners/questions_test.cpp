// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "../cases.h"
#include "partitioner/cost/memory.h"
#include "partitioner/planners/global_batch.h"
#include "partitioner/planners/largest_minibatch.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace questions_test {

using test::user_error;
using testing::HasSubstr;

PlanRequest request(const std::string& system) {
  PlanRequest request;
  request.cluster = test::cluster_of({{"fast", "slow"}, {"fast", "slow"}}, 1'000'000);
  request.profile = test::chain_of(6, {"fast", "slow"},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  request.system = system;
  return request;
}

bool fits(const PlanRequest& request, const Plan& plan) {
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (std::size_t k = 0; k < plan.virtual_workers[vw].stages.size(); ++k) {
      const StageNeed need =
          fullest_replica(plan, request.cluster, request.profile,
                          VirtualWorkerId{static_cast<int>(vw)}, StageId{static_cast<int>(k)});
      if (need.missing() > 0) return false;
    }
  }
  return true;
}

// Every minibatch below fits, and none above: tried one by one.
TEST(LargestMinibatch, IsWhatALinearSearchFinds) {
  for (const char* system : {"hetpipe", "gpipe", "dapple", "data-parallel"}) {
    const PlanRequest asked = request(system);
    const Plan plan = make_plan(asked);
    const LargestMinibatch largest = largest_minibatch(asked, plan);
    EXPECT_GE(largest.minibatch, plan.minibatch) << system;
    EXPECT_EQ(largest.next, largest.minibatch + plan.micro_batches) << system;
    EXPECT_GT(largest.missing_bytes, 0) << system;
    const int step = plan.micro_batches;
    for (int minibatch = plan.minibatch; minibatch <= largest.next + 40 * step; minibatch += step) {
      EXPECT_EQ(fits(asked, with_minibatch(asked, plan, minibatch)), minibatch <= largest.minibatch)
          << system << " " << minibatch;
    }
    const Plan at = with_minibatch(asked, plan, largest.minibatch);
    EXPECT_EQ(largest.throughput, simulate(at, asked.cluster, asked.profile).throughput) << system;
  }
}

TEST(LargestMinibatch, WithoutALimitIsRefused) {
  PlanRequest asked = request("hetpipe");
  for (Measurement& m : asked.profile.change().measurements) {
    m.output_bytes.assign(6, 0);
    m.stash_bytes.assign(6, 0);
  }
  const Plan plan = make_plan(asked);
  EXPECT_THAT(user_error([&] { largest_minibatch(asked, plan); }),
              HasSubstr("--largest: minibatch: even"));
}

PlanRequest of_a_pair() {
  PlanRequest asked = request("hetpipe");
  asked.cluster = test::cluster_of({{"fast", "slow"}}, 1'000'000);
  return asked;
}

TEST(GlobalBatch, EverySystemHasAPlanOfThatManySamples) {
  PlanRequest asked = of_a_pair();
  asked.search.systems = SystemChoice::any;
  const auto plans = plans_of_global_batch(asked, 64);
  std::set<std::string> systems;
  double before = plans.front().worth;
  for (const BatchedPlan& one : plans) {
    systems.insert(one.system);
    ASSERT_TRUE(one.plan) << one.system << ": " << one.why_not;
    EXPECT_EQ(one.plan->system, one.system);
    EXPECT_EQ(one.plan->global_batch(), 64) << one.system;
    EXPECT_EQ(one.throughput, one.plan->predicted->throughput);
    EXPECT_EQ(one.worth, one.throughput);  // the objective is throughput
    EXPECT_LE(one.worth, before);
    before = one.worth;
  }
  EXPECT_TRUE(systems.contains("hetpipe") && systems.contains("dapple") &&
              systems.contains("data-parallel"));
  EXPECT_FALSE(systems.contains("asp") || systems.contains("vanilla"));
}

// Of all numbers of virtual workers the best: no worse than each by itself.
TEST(GlobalBatch, TriesEveryNumberOfVirtualWorkers) {
  const PlanRequest asked = of_a_pair();
  const auto plans = plans_of_global_batch(asked, 32);
  ASSERT_EQ(plans.size(), 1u);
  for (const int workers : {1, 2}) {
    PlanRequest one = asked;
    one.policy = "search";
    one.virtual_workers = workers;
    one.minibatch = 32 / workers;
    EXPECT_GE(plans[0].throughput, make_plan(one).predicted->throughput) << workers;
  }
  PlanRequest two = asked;
  two.virtual_workers = 2;
  EXPECT_EQ(plans_of_global_batch(two, 32)[0].plan->minibatch, 16);
  EXPECT_FALSE(plans_of_global_batch(two, 33)[0].plan);
  EXPECT_THAT(plans_of_global_batch(two, 33)[0].why_not, HasSubstr("Give another number"));
}

}  // namespace questions_test
}  // namespace hetpipe
