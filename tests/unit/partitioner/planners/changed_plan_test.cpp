// SPDX-License-Identifier: Apache-2.0
#include "partitioner/planners/changed_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/simulator/simulate.h"

namespace hetpipe {
namespace changed_plan_test {

using test::user_error;
using testing::HasSubstr;

const Cluster kPool =
    test::cluster_of({{"fast", "slow", "slow"}, {"fast", "slow"}, {}}, 1'000'000'000);
const Profile kChain = test::chain_of(
    12, {"fast", "slow"}, [](const auto& kind) { return kind == "fast" ? 1e-3 : 2e-3; });

PlanStage stage_of(int first, int end, std::vector<DeviceName> devices,
                   std::vector<int> shares = {}) {
  PlanStage stage;
  stage.first_layer = first;
  stage.end_layer = end;
  stage.devices = std::move(devices);
  stage.shares = std::move(shares);
  return stage;
}

// Stage 0 on the node's slow device, stage 1 on its fast one; n0:1 is not used.
Plan two_workers() {
  Plan plan;
  plan.model = "chain";
  plan.minibatch = 32;
  plan.in_flight = 2;
  plan.virtual_workers = {{{}, {stage_of(0, 4, {{"n0", 2}}), stage_of(4, 12, {{"n0", 0}})}},
                          {{}, {stage_of(0, 4, {{"n1", 1}}), stage_of(4, 12, {{"n1", 0}})}}};
  plan.server.emplace().nodes = {"n2"};
  return plan;
}

ChangedPlan after(const std::string& changes, const Plan& plan = two_workers()) {
  return changed_plan(plan, kPool, kChain, changes, "--what-if");
}

double pace(const ChangedPlan& changed) {
  return simulate(changed.plan, changed.cluster, changed.profile).throughput;
}

TEST(ChangedPlan, LinksLeaveThePlanAsItIs) {
  const ChangedPlan changed = after("inter x0.001");
  EXPECT_EQ(changed.plan, two_workers());
  EXPECT_EQ(changed.cluster.inter_node.bandwidth, 1e6);
  EXPECT_FALSE(changed.planned_anew);
  EXPECT_LT(pace(changed), pace(after("links x1")));
}

TEST(ChangedPlan, PlannedAnewItsServersWorkAsBefore) {
  Plan plan = two_workers();
  plan.server->clock_distance = 2;
  plan.server->pull = "bound";
  plan.server->push_precision = "bf16";
  plan.server->scale = "mean";
  const ChangedPlan changed = after("-n0:0", plan);
  ASSERT_TRUE(changed.planned_anew);
  ASSERT_TRUE(changed.plan.server);
  EXPECT_EQ(changed.plan.server->clock_distance, 2);
  EXPECT_EQ(changed.plan.server->pull, "bound");
  EXPECT_EQ(changed.plan.server->push_precision, "bf16");
  EXPECT_EQ(changed.plan.server->scale, "mean");
}

TEST(ChangedPlan, PlannedAnewItsRoundsAreAsLong) {
  Plan plan = two_workers();
  plan.sync = "outer";
  plan.server->round = 7;
  plan.server->outer_rate = 0.6;
  plan.server->outer_momentum = 0.5;
  const ChangedPlan changed = after("-n0:0", plan);
  ASSERT_TRUE(changed.planned_anew);
  ASSERT_TRUE(changed.plan.server);
  EXPECT_EQ(changed.plan.server->round, 7);
  EXPECT_EQ(changed.plan.server->outer_rate, 0.6);
  EXPECT_EQ(changed.plan.server->outer_momentum, 0.5);
}

TEST(ChangedPlan, SettingsAreThePlans) {
  const ChangedPlan changed = after("minibatch = 64, in-flight = 3, clock-distance = 2");
  Plan expected = two_workers();
  expected.minibatch = 64;
  expected.in_flight = 3;
  expected.server->clock_distance = 2;
  EXPECT_EQ(changed.plan, expected);
  // One that a virtual worker has to itself is one of the settings, too.
  Plan own = two_workers();
  own.virtual_workers[1].minibatch = 16;
  EXPECT_EQ(after("minibatch = 64, in-flight = 3, clock-distance = 2", own).plan, expected);
}

TEST(ChangedPlan, SharesFollowTheMinibatch) {
  Plan plan = two_workers();
  plan.virtual_workers = {{{}, {stage_of(0, 12, {{"n0", 0}, {"n0", 1}}, {20, 12})}}};
  EXPECT_EQ(after("minibatch = 96", plan).plan.virtual_workers[0].stages[0].shares,
            (std::vector<int>{64, 32}));
  plan.virtual_workers[0].stages[0].shares = {};  // equal ones stay equal
  EXPECT_EQ(after("minibatch = 96", plan).plan.virtual_workers[0].stages[0].shares,
            std::vector<int>{});
  plan.micro_batches = 2;
  plan.virtual_workers[0].stages[0].shares = {10, 6};
  EXPECT_THAT(user_error([&] { after("minibatch = 33", plan); }), HasSubstr("does not divide"));
}

TEST(ChangedPlan, WithoutAnIdleDeviceTheOthersMoveUp) {
  const ChangedPlan changed = after("-n0:1");
  EXPECT_FALSE(changed.planned_anew);
  Plan expected = two_workers();
  expected.virtual_workers[0].stages[0].devices = {{"n0", 1}};
  EXPECT_EQ(changed.plan, expected);
  EXPECT_EQ(pace(changed), pace(after("links x1")));
}

TEST(ChangedPlan, WithoutADeviceThatItUsesItIsPlannedAnew) {
  for (const char* changes : {"-n1:1", "-n1", "-n2", "+1 fast @n1"}) {
    const ChangedPlan changed = after(changes);
    EXPECT_TRUE(changed.planned_anew) << changes;
    PlanRequest request = request_like(two_workers(), changed.cluster, kChain);
    if (!changed.cluster.find_node("n2")) request.server_nodes.clear();
    EXPECT_EQ(changed.plan, make_plan(request)) << changes;
  }
  const ChangedPlan set = after("-n1:1, minibatch = 64, in-flight = 3, clock-distance = 1");
  EXPECT_EQ(set.plan.minibatch, 64);
  EXPECT_EQ(set.plan.in_flight, 3);
  EXPECT_EQ(set.plan.server->clock_distance, 1);
}

TEST(ChangedPlan, WhatCannotBeSetSaysWhy) {
  Plan flushed = two_workers();
  flushed.system = "gpipe";
  flushed.server.reset();
  EXPECT_THAT(user_error([&] { after("in-flight = 4", flushed); }),
              HasSubstr("--what-if: in-flight and schedule 'gpipe'"));
  EXPECT_THAT(user_error([&] { after("clock-distance = 1", flushed); }),
              HasSubstr("--what-if: clock-distance and sync 'all-reduce'"));
  Plan unbounded = two_workers();
  unbounded.sync = "asp";
  EXPECT_THAT(user_error([&] { after("clock-distance = 1", unbounded); }), HasSubstr("sync 'asp'"));
}

}  // namespace changed_plan_test
}  // namespace hetpipe
