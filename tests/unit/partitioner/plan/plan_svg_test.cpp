// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/plan_svg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "../cases.h"
#include "../drawings.h"
#include "base/text.h"
#include "partitioner/cost/stage_cost.h"
#include "partitioner/planners/data_parallel.h"
#include "partitioner/planners/planner.h"

namespace hetpipe {
namespace plan_svg_test {

using testing::HasSubstr;
using testing::Not;

constexpr const char* kLong = "<a very long name that does not fit into its box>";

PlanRequest request_for(const std::vector<std::vector<std::string>>& pool) {
  PlanRequest request;
  request.cluster = test::cluster_of(pool, 1'000'000'000);
  request.profile = test::chain_of(9, {"fast", "slow", kLong},
                                   [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });
  request.policy = "np";
  return request;
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlanSvg, DrawsThePoolAndTheCut) {
  const PlanRequest request = request_for({{"fast", "slow"}, {"fast", "slow"}, {}});
  const Plan plan = plan_hetpipe(request);
  const std::string svg = plan_svg(plan, request.cluster, request.profile);
  test::expect_well_formed(svg);
  for (const char* text :
       {"node n0<", "node n1<", "node n2<", ">parameter server<", ">n0:0<", ">n1:1<",
        ">worker 0, stage 1<", ": layer0..layer5<", ": layer6..layer8<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("not used")));
  // Of every stage the time that the tables state.
  for (std::size_t vw = 0; vw < plan.virtual_workers.size(); ++vw) {
    for (const StageCost& cost : stage_costs(plan, request.cluster, request.profile,
                                             VirtualWorkerId{static_cast<int>(vw)})) {
      EXPECT_THAT(svg, HasSubstr("forward and backward: " + format_seconds(cost.compute())));
    }
  }
}

// However many devices there are, and whatever they are called.
TEST(PlanSvg, HasEverythingInsideAndNoDeviceOverAnother) {
  std::vector<std::vector<std::string>> pool(9, std::vector<std::string>(11, kLong));
  pool.push_back({"slow"});
  PlanRequest request = request_for(pool);
  request.cluster.nodes[0].name =
      "n<0> & a name that is longer than all of its devices together, by far";
  const Plan plan = plan_data_parallel(request);
  const std::string svg = plan_svg(plan, request.cluster, request.profile);
  test::expect_well_formed(svg);
  const std::vector<test::Drawn> boxes = test::boxes_of(svg);
  EXPECT_EQ(times(svg, "font-weight=\"bold\""), 1 + 9 * 11 + 1);
  double height = 0;
  ASSERT_EQ(std::sscanf(svg.c_str() + svg.find("height="), "height=\"%lf\"", &height), 1);
  std::vector<test::Drawn> devices;
  for (const test::Drawn& box : boxes) {
    EXPECT_LE(box.x + box.width, 1200);
    EXPECT_LE(box.y + box.height, height);
    if (box.width == 132 && box.height == 54) devices.push_back(box);
  }
  ASSERT_EQ(devices.size(), 9u * 11 + 1);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const test::Drawn &a = devices[i], &b = devices[j];
      EXPECT_FALSE(a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height &&
                   b.y < a.y + a.height)
          << i << " over " << j;
    }
  }
}

TEST(PlanSvg, SaysWhichDevicesAreIdle) {
  PlanRequest request = request_for({{"fast", "fast"}, {"slow"}});
  Plan plan = plan_hetpipe(request);
  plan.virtual_workers.resize(1);
  PlanStage whole;
  whole.end_layer = 9;
  whole.devices = {{"n0", 1}};
  plan.virtual_workers[0].stages = {whole};
  plan.server->nodes = {"n0"};
  const std::string svg = plan_svg(plan, request.cluster, request.profile);
  test::expect_well_formed(svg);
  EXPECT_EQ(times(svg, ">not used<"), 2);
  EXPECT_EQ(times(svg, ">worker 0, stage 0<"), 1);
}

}  // namespace plan_svg_test
}  // namespace hetpipe
