// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/unmeasured.h"

#include <gtest/gtest.h>

#include "../cases.h"
#include "partitioner/profile/estimate.h"

namespace hetpipe {
namespace unmeasured_test {

PlanStage stage(int first, int end, std::vector<DeviceName> devices) {
  PlanStage result;
  result.first_layer = first;
  result.end_layer = end;
  result.devices = std::move(devices);
  return result;
}

// n0:0 and n1:0 are "a", n0:1 is "b"; four layers, measured on "a" and "b" at 32.
struct Case {
  Cluster cluster = test::cluster_of({{"a", "b"}, {"a"}}, 1'000'000'000);
  Profile profile = test::chain_of(4, {"a", "b"}, [](const std::string&) { return 0.1; });
  Plan plan;

  Case() {
    plan.model = "chain";
    plan.minibatch = 32;
    plan.virtual_workers = {{{}, {stage(0, 2, {{"n0", 0}}), stage(2, 4, {{"n0", 1}})}}};
  }
  std::string text() const { return unmeasured_text(unmeasured_times(plan, cluster, profile)); }
};

TEST(UnmeasuredTimes, NoneWhereEveryBatchWasMeasuredOrLiesBetween) {
  Case c;
  EXPECT_EQ(c.text(), "");
  for (int i = 0; i < 2; ++i) {
    Measurement larger = c.profile.measurements[static_cast<std::size_t>(i)];
    larger.batch = 64;
    c.profile.measurements.push_back(larger);
  }
  c.plan.minibatch = 48;
  EXPECT_EQ(c.text(), "");
  c.plan.minibatch = 96;
  c.plan.micro_batches = 2;  // what counts is the micro-batch
  EXPECT_EQ(c.text(), "");
}

TEST(UnmeasuredTimes, BatchesBeyondTheMeasuredOnes) {
  Case c;
  c.plan.minibatch = 16;
  EXPECT_EQ(c.text(),
            "times that were not measured:\n"
            "  a: times of 16 samples per call extrapolated from 32, the only measured batch, in "
            "proportion\n"
            "  b: times of 16 samples per call extrapolated from 32, the only measured batch, in "
            "proportion\n");
  Measurement smaller = c.profile.measurements[0];
  smaller.batch = 4;
  c.profile.measurements.push_back(smaller);
  EXPECT_EQ(c.text(),
            "times that were not measured:\n"
            "  b: times of 16 samples per call extrapolated from 32, the only measured batch, in "
            "proportion\n");
  c.plan.minibatch = 128;
  const auto times = unmeasured_times(c.plan, c.cluster, c.profile);
  ASSERT_EQ(times.size(), 2u);
  EXPECT_EQ(times[0].kind, "a");
  EXPECT_EQ(times[0].origin, TimeOrigin::extrapolated);
  EXPECT_EQ(times[0].text,
            "a: times of 128 samples per call extrapolated from the measured 4 ... 32");
}

// Replicas split a micro-batch, unequally where they have shares; a kind in two stages has two.
TEST(UnmeasuredTimes, WhatEachReplicaTakes) {
  Case c;
  c.plan.virtual_workers = {{{}, {stage(0, 2, {{"n0", 0}, {"n1", 0}}), stage(2, 4, {{"n0", 1}})}}};
  c.plan.virtual_workers[0].stages[0].shares = {20, 12};
  EXPECT_EQ(c.text(),
            "times that were not measured:\n"
            "  a: times of 12, 20 samples per call extrapolated from 32, the only measured batch, "
            "in proportion\n");
}

TEST(UnmeasuredTimes, EstimatesOfTheKindsInThePlan) {
  Case c;
  c.profile.measurements.pop_back();
  for (DeviceKind& kind : c.cluster.kinds) {
    kind.peak_flops = 1e13;
    kind.memory_bandwidth = 1e11;
  }
  c.profile = with_estimates(c.profile, c.cluster, Precision::fp32);
  EXPECT_EQ(c.text(),
            "times that were not measured:\n"
            "  b: estimated from a's measurement by roofline (expected error 43 %, the mean of 4 "
            "groups of GPUs; the worst 73 %)\n");
  EXPECT_EQ(unmeasured_times(c.plan, c.cluster, c.profile).at(0).record->compared, 4);
  c.plan.virtual_workers = {{{}, {stage(0, 4, {{"n0", 0}})}}};  // "b" is left out
  EXPECT_EQ(c.text(), "");
}

// What is expected of an estimate depends on what it is made from and on whose runtime it is for.
TEST(UnmeasuredTimes, EstimatesFromFlopsHaveTheRecordOfTheirRuntime) {
  Case c;
  c.profile.measurements.clear();
  for (ProfileLayer& layer : c.profile.layers) layer.forward_flops = 1e9;
  for (DeviceKind& kind : c.cluster.kinds) {
    kind.peak_flops = 1e13;
    kind.memory_bandwidth = 1e11;
  }
  c.profile = with_estimates(c.profile, c.cluster, Precision::fp32);
  const auto first = [&] { return unmeasured_times(c.plan, c.cluster, c.profile).at(0); };
  EXPECT_EQ(first().text,
            "a: estimated from flops and bytes by roofline (" + to_string(kAbsoluteRecord) + ")");
  c.plan.runtime = "megatron-deepspeed";
  EXPECT_EQ(first().record->compared, kMegatronRecord.compared);
  EXPECT_EQ(first().record->mean, kMegatronRecord.mean);
  EXPECT_GT(kAbsoluteRecord.mean, kMegatronRecord.mean);
}

TEST(UnmeasuredTimes, EmulatedKindsStandOnTheCpus) {
  Case c;
  for (DeviceKind& kind : c.cluster.kinds) kind.emulate = Emulation{2};
  c.profile = test::chain_of(4, {"cpu"}, [](const std::string&) { return 0.1; });
  EXPECT_EQ(c.text(), "");
  c.plan.minibatch = 8;
  EXPECT_EQ(unmeasured_times(c.plan, c.cluster, c.profile).size(), 2u);
}

}  // namespace unmeasured_test
}  // namespace hetpipe
