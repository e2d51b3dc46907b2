// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "base/file.h"
#include "partitioner/cost/memory.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/plan/plan_svg.h"
#include "partitioner/planners/planner.h"
#include "partitioner/planners/search.h"
#include "partitioner/simulator/gantt.h"
#include "partitioner/simulator/simulate.h"

// The worked example of docs/planning.md, by hand.
namespace hetpipe {
namespace planning_example_test {

PlanRequest example(const std::string& policy) {
  const std::string folder = HETPIPE_SOURCE_DIR "/docs/example/";
  PlanRequest request;
  request.cluster = load_cluster(folder + "cluster.toml");
  request.profile = load_profile(folder + "profile.toml");
  request.policy = policy;
  return request;
}

TEST(PlanningExample, FourLayersOnTheFastCardAndTwoOnTheSlow) {
  const PlanRequest request = example("ed");
  const Plan plan = make_plan(request);
  ASSERT_EQ(plan.virtual_workers.size(), 2u);
  EXPECT_EQ(plan.in_flight, 3);
  for (int vw = 0; vw < 2; ++vw) {
    const auto& stages = plan.virtual_workers[static_cast<std::size_t>(vw)].stages;
    ASSERT_EQ(stages.size(), 2u);
    EXPECT_EQ(stages[0].end_layer, 4);
    const auto costs = stage_costs(plan, request.cluster, request.profile, VirtualWorkerId{vw});
    EXPECT_NEAR(costs[0].total(), 0.016 + 0.032 + 0.008, 1e-12);
    EXPECT_NEAR(costs[1].total(), 0.016 + 0.032 + 0.008, 1e-12);
  }
  // 48 ms of computing per minibatch are what no number in flight can pass.
  EXPECT_NEAR(plan.predicted->throughput, 1326, 0.5);
  EXPECT_LT(plan.predicted->throughput, 2 * 32 / 0.048);
  const MemoryLedger ledger =
      stage_ledger(plan, request.cluster, request.profile, VirtualWorkerId{0}, StageId{0});
  const std::int64_t million = 1'000'000;
  EXPECT_EQ(ledger.total(), million * (4 * 4 + 2 * 4 + 2 * 4 + 3 * 40 + 3 * 10 + 10));
}

TEST(PlanningExample, OneInFlightTakesTheSumOfItsParts) {
  PlanRequest request = example("ed");
  request.in_flight = 1;
  // F, both activations through one interface, F and B, both gradients, B, and a wave of 2 x 2 MB.
  const double seconds = 0.016 + 0.016 + 0.048 + 0.016 + 0.032;
  const double wave = 2 * 32 / make_plan(request).predicted->throughput - seconds;
  EXPECT_GT(wave, 0.002);
  EXPECT_LT(wave, 0.005);
}

TEST(PlanningExample, SlowCardsTogetherHoldTheFastOnesUp) {
  const PlanRequest request = example("np");
  const Plan plan = make_plan(request);
  const auto costs = stage_costs(plan, request.cluster, request.profile, VirtualWorkerId{1});
  EXPECT_NEAR(costs[0].total(), 0.024 + 0.048 + 0.001, 1e-12);
  EXPECT_NEAR(plan.predicted->throughput, 871.5, 0.05);
}

TEST(PlanningExample, TheSearchComparesAllPlans) {
  const SearchResult result = search_plans(example("search"));
  EXPECT_TRUE(result.exact);
  EXPECT_GE(result.plan.predicted->throughput, 1326 - 0.5);
  EXPECT_LE(result.plan.predicted->throughput, 2 * 32 / 0.048);
}

// Its pictures; HETPIPE_UPDATE_PAGES=1 draws them anew.
TEST(PlanningExample, PicturesAreOfThisPlan) {
  const PlanRequest request = example("ed");
  const Plan plan = make_plan(request);
  const std::string folder = HETPIPE_SOURCE_DIR "/docs/example/";
  SimulationRequest kept;
  kept.keep_events = true;
  GanttRequest drawn;
  drawn.until = 0.5;
  for (const auto& [name, svg] :
       {std::pair{"plan.svg", plan_svg(plan, request.cluster, request.profile)},
        {"gantt.svg", gantt_svg(simulate(plan, request.cluster, request.profile, kept),
                                request.cluster, drawn)}}) {
    if (std::getenv("HETPIPE_UPDATE_PAGES") != nullptr) write_file(folder + name, svg);
    EXPECT_EQ(read_file(folder + name), svg) << name;
  }
}

}  // namespace planning_example_test
}  // namespace hetpipe
