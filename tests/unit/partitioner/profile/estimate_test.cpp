// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/estimate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "../cases.h"

namespace hetpipe {
namespace estimate_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

// Rates that make sustained numbers round: 10 Tflop/s at full efficiency, 800 GB/s after the share
// that streaming reaches.
DeviceKind kind(const std::string& name, double tflops, double gigabytes_per_second) {
  DeviceKind k;
  k.name = name;
  k.memory = 1;
  k.peak_flops = tflops * 1e12;
  k.fp32_efficiency = 1;
  k.memory_bandwidth = gigabytes_per_second * 1e9 / 0.8;
  return k;
}

Cluster cluster_with(const std::vector<DeviceKind>& kinds) {
  Cluster cluster;
  cluster.kinds = kinds;
  Node node{"n0", {}};
  for (std::size_t k = 0; k < kinds.size(); ++k) node.kinds.push_back(static_cast<int>(k));
  cluster.nodes = {node};
  return cluster;
}

// Of each kind that was estimated, from what.
std::map<std::string, std::string> estimates_in(const Profile& profile) {
  std::map<std::string, std::string> estimates;
  for (const Measurement& m : profile.measurements) {
    if (!m.estimate.empty()) estimates[m.device] = m.estimate;
  }
  return estimates;
}

// One layer that computes (2 flops per byte would balance), one that moves bytes.
Profile two_layers() {
  Profile p;
  p.model = "tiny";
  p.layers.resize(2);
  p.layers[0].name = "compute";
  p.layers[0].forward_flops = 1e9;
  p.layers[0].input_bytes = 1e6;
  p.layers[0].output_bytes = 1e6;
  p.layers[0].stash_bytes = 2e6;
  p.layers[1].name = "move";
  p.layers[1].inputs = {0};
  p.layers[1].forward_flops = 1e3;
  p.layers[1].output_bytes = 1e6;
  return p;
}

// A device with tensor cores, ten times as fast in fp16, and a profile measured on it.
DeviceKind tensor_kind() {
  DeviceKind k = kind("card", 10, 1e6);
  k.peak_flops_fp16 = 100e12 / 0.7;
  return k;
}

Profile measured_in(std::optional<Precision> precision) {
  Profile p = two_layers();
  p.measurements = {{.device = "card",
                     .batch = 8,
                     .forward = {8e-4, 1e-6},
                     .backward = {16e-4, 2e-6},
                     .output_bytes = {8'000'000, 8'000'000},
                     .stash_bytes = {16'000'000, 0},
                     .precision = precision}};
  return p;
}

TEST(Estimate, AMeasurementHoldsForItsPrecision) {
  const Cluster cluster = cluster_with({tensor_kind()});
  const Profile fp32 = measured_in(Precision::fp32);
  EXPECT_EQ(parse_profile(to_toml(fp32), "again"), fp32);
  EXPECT_EQ(with_estimates(fp32, cluster, Precision::fp32), fp32);
  EXPECT_EQ(with_estimates(fp32, cluster, precision_choice_from("auto")), fp32);

  const Profile half = with_estimates(fp32, cluster, Precision::bf16);
  EXPECT_THAT(estimates_in(half),
              ElementsAre(Pair("card", "from card's measurement in fp32 by roofline")));
  ASSERT_EQ(half.measurements.size(), 1u);
  EXPECT_NEAR(half.measurements[0].forward[0], 8e-5, 1e-9);  // arithmetic, at ten times the rate
  EXPECT_THAT(half.measurements[0].output_bytes, ElementsAre(4e6, 4e6));
  EXPECT_EQ(with_estimates(half, cluster, Precision::bf16), half);

  // Where it is not stated, it is the one that is planned for.
  const Profile any = measured_in(std::nullopt);
  EXPECT_EQ(with_estimates(any, cluster, Precision::bf16), any);
}

TEST(Estimate, PlansTakeThePrecisionThatWasMeasured) {
  const Cluster cluster = cluster_with({tensor_kind()});
  EXPECT_EQ(measured_precisions(measured_in(std::nullopt), cluster), PrecisionChoice());
  EXPECT_EQ(measured_precisions(measured_in(Precision::fp32), cluster), PrecisionChoice());
  EXPECT_EQ(measured_precisions(measured_in(Precision::bf16), cluster),
            precision_choice_from("card=bf16"));
}

TEST(Estimate, SaysWhichPrecisionIsMissing) {
  DeviceKind unknown = tensor_kind();
  unknown.peak_flops = unknown.peak_flops_fp16 = 0;
  try {
    with_estimates(measured_in(Precision::fp32), cluster_with({unknown}), Precision::fp16);
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no measurement on 'card' in fp16 (it has one in fp32)"));
    EXPECT_THAT(error.what(), HasSubstr("--precision fp16"));
  }
}

TEST(Estimate, AbsoluteIsTheLongerOfArithmeticAndTraffic) {
  const Cluster cluster = cluster_with({kind("new", 10, 100)});
  const Profile p = with_estimates(two_layers(), cluster, Precision::fp32);
  const LayerCosts c = costs_on(p, cluster.kinds[0], 8);
  EXPECT_TRUE(c.estimated);
  // 8 x 1e9 flops at 1e13; 8 x (1e6 read + 1e6 written) at 1e11.
  EXPECT_NEAR(c.forward[0], 8e-4, 1e-12);
  EXPECT_NEAR(c.forward[1], 1.6e-4, 1e-12);
  EXPECT_NEAR(c.backward[0], 16e-4, 1e-12);
  EXPECT_NEAR(c.backward[1], 3.2e-4, 1e-12);
  EXPECT_THAT(c.output_bytes, ElementsAre(8e6, 8e6));
  EXPECT_THAT(c.stash_bytes, ElementsAre(16e6, 0));
  EXPECT_THAT(estimates_in(p), ElementsAre(Pair("new", "from flops and bytes by roofline")));
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
}

TEST(Estimate, UpdatesOfMatrices) {
  Profile p = two_layers();
  p.layers[0].matrices = {{100, 1000}};
  const Cluster cluster = cluster_with({kind("new", 10, 100)});
  const Profile absolute = with_estimates(p, cluster, Precision::fp32);
  const auto of = [&](const Profile& profile, Updates updates) {
    return costs_on(profile, cluster.kinds[0], 8, updates).update[0];
  };
  const double plain = of(absolute, Updates::plain);
  // Each of six directions reads or writes 4e5 bytes five times, at 1e11; 5 x 2e4 x 2,100 flops.
  EXPECT_NEAR(of(absolute, Updates::damped) - plain, 30 * 4e5 / 1e11, 1e-12);
  EXPECT_NEAR(of(absolute, Updates::orthogonal) - plain, 5 * 2e4 * 2100 / 1e13, 1e-12);

  Measurement old{"old", 4, {1.0, 2.0}, {3.0, 4.0}, {0.5, 0.5}, {4000000, 4000000}, {1, 1}};
  old.damped_update = {1, 0.5};
  old.orthogonal_update = {2.5, 0.5};
  p.measurements = {old};
  const Cluster both = cluster_with({kind("old", 10, 100), kind("new", 20, 400)});
  const Profile relative = with_estimates(p, both, Precision::fp32);
  const auto on_new = [&](Updates updates) {
    return costs_on(relative, both.kinds[1], 4, updates).update[0];
  };
  EXPECT_NEAR(on_new(Updates::damped), 0.25, 1e-12);                 // traffic
  EXPECT_NEAR(on_new(Updates::orthogonal), 0.125 + 2.0 / 2, 1e-12);  // and arithmetic
}

// As `hetpipe profile` writes it on a machine whose speed nobody knows.
TEST(Estimate, BytesThatNoLayerStatesAreThoseMeasuredElsewhere) {
  const Cluster cluster = cluster_with({kind("new", 10, 100)});
  Profile p = two_layers();
  for (ProfileLayer& layer : p.layers) layer.output_bytes = layer.stash_bytes = 0;
  Measurement elsewhere;
  elsewhere.device = "cpu";
  elsewhere.batch = 4;
  elsewhere.forward = elsewhere.backward = {1, 1};
  elsewhere.output_bytes = {4'000'000, 4'000'000};
  elsewhere.stash_bytes = {8'000'000, 0};
  p.measurements = {elsewhere};
  const LayerCosts costs =
      costs_on(with_estimates(p, cluster, Precision::fp32), cluster.kinds[0], 8);
  const LayerCosts stated =
      costs_on(with_estimates(two_layers(), cluster, Precision::fp32), cluster.kinds[0], 8);
  EXPECT_EQ(costs.output_bytes, stated.output_bytes);
  EXPECT_EQ(costs.stash_bytes, stated.stash_bytes);
  EXPECT_EQ(costs.stash_bytes[0], 16'000'000);
  EXPECT_EQ(costs.forward, stated.forward);
}

TEST(Estimate, RelativeScalesAMeasurementByTheRooflines) {
  Profile p = two_layers();
  p.measurements = {{"old", 4, {1.0, 2.0}, {3.0, 4.0}, {0.5, 0.5}, {4000000, 4000000}, {1, 1}}};
  const Cluster cluster = cluster_with({kind("old", 10, 100), kind("new", 20, 400)});
  p = with_estimates(std::move(p), cluster, Precision::fp32);
  EXPECT_FALSE(costs_on(p, cluster.kinds[0], 4).estimated);
  const LayerCosts c = costs_on(p, cluster.kinds[1], 4);
  EXPECT_TRUE(c.estimated);
  EXPECT_NEAR(c.forward[0], 0.5, 1e-12);  // twice the flop/s
  EXPECT_NEAR(c.forward[1], 0.5, 1e-12);  // four times the bandwidth
  EXPECT_NEAR(c.backward[0], 1.5, 1e-12);
  EXPECT_NEAR(c.update[0], 0.125, 1e-12);  // traffic alone
  EXPECT_EQ(c.output_bytes, (std::vector<std::int64_t>{4000000, 4000000}));
  EXPECT_THAT(estimates_in(p), ElementsAre(Pair("new", "from old's measurement by roofline")));
}

// Without flops, what the bytes explain scales with the bandwidth and the rest with the peak.
TEST(Estimate, WithoutFlopsTheTimeIsSplitByBytes) {
  Profile p = two_layers();
  for (ProfileLayer& layer : p.layers) layer.forward_flops = 0;
  p.layers[0].input_bytes = 0;
  // Layer 1 reads 30e9 and writes 70e9 bytes: 1 s of its 3 s at 1e11 bytes/s.
  p.measurements = {{"old", 1, {0, 3.0}, {0, 0}, {}, {30000000000, 70000000000}, {1, 1}}};
  const Cluster cluster = cluster_with({kind("old", 10, 100), kind("new", 20, 400)});
  p = with_estimates(std::move(p), cluster, Precision::fp32);
  EXPECT_NEAR(costs_on(p, cluster.kinds[1], 1).forward[1], 1.0 / 4 + 2.0 / 2, 1e-12);
}

TEST(Estimate, TheNearestMeasuredKindIsScaled) {
  Profile p = two_layers();
  p.measurements = {{"slow", 4, {1, 1}, {1, 1}, {}, {4, 4}, {1, 1}},
                    {"fast", 4, {0.1, 0.1}, {0.1, 0.1}, {}, {4, 4}, {1, 1}}};
  const Cluster cluster =
      cluster_with({kind("slow", 1, 10), kind("fast", 10, 100), kind("new", 9, 90)});
  EXPECT_THAT(estimates_in(with_estimates(p, cluster, Precision::fp32)),
              ElementsAre(Pair("new", HasSubstr("from fast's"))));
}

TEST(Estimate, PrecisionChoosesThePeak) {
  DeviceKind k = kind("k", 10, 100);
  k.fp32_efficiency = 0.5;
  k.peak_flops_fp16 = 100e12;
  EXPECT_DOUBLE_EQ(sustained_flops(k, Precision::fp32), 5e12);
  EXPECT_DOUBLE_EQ(sustained_flops(k, Precision::tf32), 5e12);  // has none: fp32's
  EXPECT_DOUBLE_EQ(sustained_flops(k, Precision::fp16), 70e12);
  k.gpus = 4;  // a group works together
  EXPECT_DOUBLE_EQ(sustained_flops(k, Precision::fp32), 20e12);
}

// What tensor cores reach is a share of its own: that of fp32 says nothing about them.
TEST(Estimate, EfficienciesOfTensorCoresAndMemory) {
  DeviceKind k = kind("k", 10, 100);
  k.peak_flops_fp16 = 100e12;
  k.peak_flops_tf32 = 50e12;
  k.fp32_efficiency = 0.9;
  k.tensor_efficiency = 0.4;
  EXPECT_DOUBLE_EQ(sustained_flops(k, Precision::fp16), 40e12);
  EXPECT_DOUBLE_EQ(sustained_flops(k, Precision::tf32), 20e12);
  EXPECT_DOUBLE_EQ(sustained_flops(k, Precision::fp32), 9e12);
  k.memory_efficiency = 0.5;
  EXPECT_DOUBLE_EQ(sustained_bandwidth(k), 0.5 * 100e9 / 0.8);
}

// Sixteen operations of 100 us each take longer than the layer's arithmetic, 0.8 ms, and than its
// traffic; backward is arithmetic, 1.6 ms, unless the layer has parameters, whose gradients are as
// many operations again.
TEST(Estimate, ALayerTakesTheLaunchesOfItsOperationsAtLeast) {
  Cluster cluster = cluster_with({kind("new", 10, 100)});
  cluster.kinds[0].launch_latency = 1e-4;
  Profile p = two_layers();
  p.layers[0].operations = 16;
  const auto costs = [&] {
    return costs_on(with_estimates(p, cluster, Precision::fp32), cluster.kinds[0], 8);
  };
  EXPECT_NEAR(costs().forward[0], 1.6e-3, 1e-12);
  EXPECT_NEAR(costs().backward[0], 1.6e-3, 1e-12);
  EXPECT_NEAR(costs().forward[1], 1.6e-4, 1e-12);  // one operation: traffic
  p.layers[0].parameter_bytes = 4;
  EXPECT_NEAR(costs().backward[0], 3.2e-3, 1e-12);
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
}

// Each runtime has its own, where the cluster file says nothing.
TEST(Estimate, TheUsualLaunchLatencyIsThatOfTheRuntime) {
  Cluster cluster = cluster_with({kind("new", 10, 100)});
  Profile p = two_layers();
  p.layers[0].operations = 1000;
  const auto forward = [&](std::string_view runtime) {
    const Profile estimated = with_estimates(p, cluster, Precision::fp32, {}, runtime);
    return costs_on(estimated, cluster.kinds[0], 1).forward[0];
  };
  EXPECT_NEAR(forward(""), 1000 * kLaunchLatency, 1e-12);
  EXPECT_NEAR(forward("megatron-deepspeed"), 1000 * kMegatronLaunchLatency, 1e-12);
  cluster.kinds[0].launch_latency = 1e-3;
  EXPECT_NEAR(forward("megatron-deepspeed"), 1, 1e-12);
}

// In a ring of four GPUs six messages of a quarter, after either pass: 6 (2e6 / 1e9 + 1e-3).
TEST(Estimate, AGroupAllReducesAfterEachPass) {
  Cluster cluster = cluster_with({kind("group", 10, 100)});
  cluster.intra_node = {1e9, 1e-3};
  cluster.kinds[0].gpus = 4;
  cluster.kinds[0].peak_flops_fp16 = 10e12 / 0.7;  // as fast as fp32
  Profile p = two_layers();
  const auto costs = [&](Precision precision) {
    return costs_on(with_estimates(p, cluster, precision), cluster.kinds[0], 8);
  };
  const LayerCosts without = costs(Precision::fp32);
  const LayerCosts narrow_without = costs(Precision::fp16);
  p.layers[0].group_all_reduce_bytes = 1e6;
  const LayerCosts with = costs(Precision::fp32);
  EXPECT_NEAR(with.forward[0] - without.forward[0], 6 * (2e6 / 1e9 + 1e-3), 1e-12);
  EXPECT_NEAR(with.backward[0] - without.backward[0], 6 * (2e6 / 1e9 + 1e-3), 1e-12);
  EXPECT_EQ(with.forward[1], without.forward[1]);
  const LayerCosts narrow = costs(Precision::fp16);  // half the bytes
  EXPECT_NEAR(narrow.forward[0] - narrow_without.forward[0], 6 * (1e6 / 1e9 + 1e-3), 1e-12);
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
  cluster.kinds[0].gpus = 1;
  EXPECT_NEAR(costs(Precision::fp32).forward[0], 8e-4, 1e-12);
}

// What was measured holds them: they are no part of what scales.
TEST(Estimate, AGroupsAllReducesDoNotScaleWithTheCard) {
  Profile p = two_layers();
  p.layers[0].group_all_reduce_bytes = 1e6;
  p.measurements = {{"old", 4, {1.5, 2.0}, {3.5, 4.0}, {}, {4000000, 4000000}, {1, 1}}};
  Cluster cluster = cluster_with({kind("old", 10, 100), kind("new", 20, 400)});
  cluster.intra_node = {8e6, 0};
  for (DeviceKind& k : cluster.kinds) k.gpus = 2;  // 2 x 2e6 bytes at 8e6 bytes/s
  const LayerCosts costs =
      costs_on(with_estimates(p, cluster, Precision::fp32), cluster.kinds[1], 4);
  EXPECT_NEAR(costs.forward[0], 1.0 / 2 + 0.5, 1e-9);
  EXPECT_NEAR(costs.backward[0], 3.0 / 2 + 0.5, 1e-9);
}

// Activations of two bytes, messages and what is kept likewise.
TEST(Estimate, TwoBytesHalveWhatIsSentAndKept) {
  Cluster cluster = cluster_with({tensor_kind()});
  const auto costs = [&](Precision precision) {
    return costs_on(with_estimates(two_layers(), cluster, precision), cluster.kinds[0], 8);
  };
  EXPECT_THAT(costs(Precision::fp16).output_bytes, ElementsAre(4e6, 4e6));
  EXPECT_THAT(costs(Precision::fp16).stash_bytes, ElementsAre(8e6, 0));
  EXPECT_THAT(costs(Precision::tf32).output_bytes, ElementsAre(8e6, 8e6));
}

// Of three alike kinds one keeps fp32, and one that was measured in bf16 is what the third is
// scaled from.
TEST(Estimate, EachKindHasAPrecision) {
  Profile p = two_layers();
  Cluster cluster = cluster_with({kind("whole", 10, 100), kind("half", 10, 100)});
  for (DeviceKind& k : cluster.kinds) k.peak_flops_fp16 = 100e12 / 0.7;
  PrecisionChoice choice;
  choice.of_kind["half"] = Precision::bf16;
  const Profile absolute = with_estimates(p, cluster, choice);
  EXPECT_NEAR(costs_on(absolute, cluster.kinds[0], 8).forward[0], 8e-4, 1e-12);
  EXPECT_NEAR(costs_on(absolute, cluster.kinds[1], 8).forward[0], 0.8e-4, 1e-12);
  EXPECT_NEAR(costs_on(absolute, cluster.kinds[1], 8).forward[1], 0.8e-4, 1e-12);  // half the bytes

  p.measurements = {{"half", 8, {1, 1}, {1, 1}, {}, {8000000, 8000000}, {1, 1}}};
  const Profile relative = with_estimates(p, cluster, choice);
  EXPECT_NEAR(costs_on(relative, cluster.kinds[0], 8).forward[0], 8e-4 / 1.6e-4, 1e-9);
}

TEST(Estimate, MeasuredAndEmulatedKindsStayAsTheyAre) {
  Profile p = two_layers();
  p.measurements = {{"cpu", 4, {1, 1}, {1, 1}, {}, {4, 4}, {1, 1}}};
  DeviceKind emulated = kind("big", 10, 100);
  emulated.emulate = Emulation{2};
  const Cluster cluster = cluster_with({emulated});
  EXPECT_EQ(with_estimates(p, cluster, Precision::fp32), p);
}

TEST(Estimate, NothingToEstimateFromTellsEveryKind) {
  Profile p = two_layers();
  for (ProfileLayer& layer : p.layers) layer.forward_flops = 0;
  p.measurements = {{"mystery", 4, {1, 1}, {1, 1}, {}, {4, 4}, {1, 1}}};
  DeviceKind bare;
  bare.name = "bare";
  DeviceKind emulated = kind("rehearsed", 10, 100);
  emulated.emulate = Emulation{2};
  const Cluster cluster = cluster_with({bare, kind("known", 10, 100), emulated});
  const auto place = [](const DeviceKind& of) { return "lab.toml, " + of.name; };
  const std::string message =
      test::user_error([&] { with_estimates(p, cluster, Precision::fp32, place); });
  EXPECT_THAT(message,
              HasSubstr("lab.toml, bare: the profile of 'tiny' has no measurement on 'bare', and "
                        "its speed is not known (an estimate needs peak_flops and "
                        "memory_bandwidth). Add both to [device.bare]"));
  EXPECT_THAT(message,
              HasSubstr("lab.toml, known: the profile of 'tiny' has no measurement on 'known', "
                        "and the speed of what it was measured on is not known (an estimate scales "
                        "from 'mystery', whose peak_flops"));
  EXPECT_THAT(message, HasSubstr("lab.toml, rehearsed: the profile of 'tiny' has no measurement on "
                                 "'rehearsed' or 'cpu' (an emulated device runs at this machine's "
                                 "speed divided by its slowdown; measured: mystery)"));
}

}  // namespace estimate_test
}  // namespace hetpipe
