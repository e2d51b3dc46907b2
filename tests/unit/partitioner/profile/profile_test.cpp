// SPDX-License-Identifier: Apache-2.0
#include "partitioner/profile/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../cases.h"

namespace hetpipe {
namespace profile_test {

using testing::ElementsAre;
using testing::HasSubstr;

Profile two_batches() {
  Profile p;
  p.model = "tiny";
  p.layers.resize(1);
  p.layers[0].name = "a";
  p.measurements = {{"cpu", 8, {1.0}, {2.0}, {0.5}, {80}, {800}},
                    {"cpu", 2, {0.4}, {0.6}, {0.5}, {20}, {200}},
                    {"gpu", 8, {0.1}, {0.2}, {}, {80}, {800}}};
  return p;
}

DeviceKind kind(const std::string& name, std::optional<double> slowdown) {
  DeviceKind k;
  k.name = name;
  if (slowdown) k.emulate = Emulation{*slowdown};
  return k;
}

TEST(CostsOn, MeasuredBatchesAsTheyAre) {
  const LayerCosts c = costs_on(two_batches(), kind("cpu", {}), 8);
  EXPECT_THAT(c.forward, ElementsAre(1.0));
  EXPECT_THAT(c.backward, ElementsAre(2.0));
  EXPECT_THAT(c.update, ElementsAre(0.5));
  EXPECT_THAT(c.output_bytes, ElementsAre(80));
  EXPECT_THAT(c.stash_bytes, ElementsAre(800));
}

TEST(CostsOn, OnTheLineOfTheTwoNearestBatches) {
  const Profile p = two_batches();  // forward 0.2 s + 0.1 s per sample
  EXPECT_DOUBLE_EQ(costs_on(p, kind("cpu", {}), 5).forward[0], 0.7);
  EXPECT_DOUBLE_EQ(costs_on(p, kind("cpu", {}), 16).forward[0], 1.8);
  EXPECT_DOUBLE_EQ(costs_on(p, kind("cpu", {}), 1).forward[0], 0.3);
  EXPECT_FALSE(costs_on(p, kind("cpu", {}), 1).estimated);
  EXPECT_EQ(costs_on(p, kind("cpu", {}), 5).output_bytes[0], 50);
  EXPECT_EQ(costs_on(p, kind("cpu", {}), 16).stash_bytes[0], 1600);
  EXPECT_EQ(costs_on(p, kind("cpu", {}), 1).stash_bytes[0], 100);
  EXPECT_DOUBLE_EQ(costs_on(p, kind("cpu", {}), 1).update[0], 0.5);  // no matter how many samples
}

TEST(CostsOn, OneMeasuredBatchScalesInProportion) {
  EXPECT_DOUBLE_EQ(costs_on(two_batches(), kind("gpu", {}), 16).forward[0], 0.2);
  EXPECT_DOUBLE_EQ(costs_on(two_batches(), kind("gpu", {}), 2).forward[0], 0.025);
}

// Lines that would fall with the batch, or reach zero, and more than two batches.
TEST(CostsOn, ExtrapolationNeitherFallsNorReachesZero) {
  Profile p = two_batches();
  p.measurements = {{"cpu", 4, {1.0}, {1.0}, {}, {4}, {4}},
                    {"cpu", 8, {3.0}, {1.0}, {}, {8}, {8}},
                    {"cpu", 16, {4.0}, {0.8}, {}, {16}, {16}}};
  const auto forward = [&](int batch) { return costs_on(p, kind("cpu", {}), batch).forward[0]; };
  const auto backward = [&](int batch) { return costs_on(p, kind("cpu", {}), batch).backward[0]; };
  EXPECT_DOUBLE_EQ(forward(2), 0.5);  // the line of 4 and 8 would be at 0: in proportion
  EXPECT_DOUBLE_EQ(forward(6), 2.0);
  EXPECT_DOUBLE_EQ(forward(12), 3.5);
  EXPECT_DOUBLE_EQ(forward(32), 6.0);   // the line of 8 and 16
  EXPECT_DOUBLE_EQ(backward(2), 1.0);   // all of it is fixed
  EXPECT_DOUBLE_EQ(backward(32), 0.8);  // not less than was measured
  double before = 0;
  for (int batch = 1; batch <= 64; ++batch) {
    EXPECT_GT(forward(batch), before) << batch;
    before = forward(batch);
  }
}

TEST(CostsOn, EmulatedKindsRunOnTheCpu) {
  const Profile p = two_batches();
  const LayerCosts slow = costs_on(p, kind("big", 3.0), 8);
  EXPECT_DOUBLE_EQ(slow.forward[0], 3.0);
  EXPECT_DOUBLE_EQ(slow.update[0], 1.5);
  EXPECT_EQ(slow.output_bytes[0], 80);
  EXPECT_DOUBLE_EQ(costs_on(p, kind("gpu", 3.0), 8).forward[0], 0.1);  // its own count as they are
  EXPECT_DOUBLE_EQ(costs_on(p, kind("gpu", {}), 8).update[0], 0.0);
}

TEST(CostsOn, UpdatesOfEachKindOfOptimizer) {
  Profile p = two_batches();
  p.layers[0].matrices = {{8, 6}, {3, 100}};
  for (Measurement& m : p.measurements) {
    if (m.device == "cpu") m.damped_update = {0.75}, m.orthogonal_update = {4};
  }
  const auto on = [&](const DeviceKind& of, Updates updates) {
    return costs_on(p, of, 4, updates);
  };
  EXPECT_EQ(on(kind("cpu", {}), Updates::plain).update[0], 0.5);
  EXPECT_EQ(on(kind("cpu", {}), Updates::damped).update[0], 0.75);
  EXPECT_EQ(on(kind("big", 3.0), Updates::damped).update[0], 2.25);
  EXPECT_EQ(on(kind("cpu", {}), Updates::orthogonal).update[0], 4);
  EXPECT_EQ(on(kind("gpu", {}), Updates::orthogonal).update[0], 0);  // as plain ones
  EXPECT_THAT(on(kind("cpu", {}), Updates::plain).update_bytes, testing::IsEmpty());
  // 8 x 6: 2 x 36 + 48 floats; 3 x 100: 2 x 9 + 300.
  EXPECT_THAT(on(kind("cpu", {}), Updates::orthogonal).update_bytes, ElementsAre(4 * 318));
  EXPECT_THAT(on(kind("cpu", {}), Updates::damped).update_bytes, ElementsAre(4 * 203));
  for (Measurement& m : p.measurements) m.precision = Precision::bf16;
  EXPECT_THAT(on(kind("gpu", {}), Updates::orthogonal).update_bytes,
              ElementsAre(2 * (318 + 300) + 4 * 300));
  EXPECT_EQ(parse_profile(to_toml(p), "p.toml"), p);
}

TEST(Matrices, FlopsOfOrthogonalChanges) {
  // By hand, of one step: 2 x 2 x 2 x 5, a square of 2 x 2 x 2 x 2, and 2 x 2 x 2 x 5 again.
  EXPECT_EQ(orthogonal_flops({2, 5}), 5 * (40 + 16 + 40));
  EXPECT_EQ(orthogonal_flops({5, 2}), orthogonal_flops({2, 5}));
}

TEST(ProfileFile, SidesOfMatricesComeInPairs) {
  Profile p = two_batches();
  p.layers[0].matrices = {{8, 6}};
  std::string text = to_toml(p);
  text.replace(text.find("[8, 6]"), 6, "[8, 6, 3]");
  EXPECT_THAT(test::user_error([&] { parse_profile(text, "p.toml"); }),
              HasSubstr("layer 'a': matrices has 3 numbers"));
}

TEST(CostsOn, NothingCoversTheKind) {
  EXPECT_THAT(
      test::user_error([] { costs_on(two_batches(), kind("titan", {}), 8); }),
      HasSubstr("no measurement on 'titan' (it covers: cpu, gpu). Measure it on such a machine: "
                "hetpipe profile --model tiny"));
}

// The whole step's time stands with every layer; at the top the key is for all measurements.
TEST(ProfileFile, AnUpdateMayBeTheWholeStep) {
  const auto text = [](const std::string& top, const std::string& update) {
    return "format = 1\nmodel = \"m\"\n" + top +
           "[[layer]]\nname = \"a\"\nparameter_bytes = 30\n[[layer]]\nname = \"b\"\n"
           "parameter_bytes = 10\n[[measurement]]\ndevice = \"v100\"\nbatch = 1\n"
           "forward = [1, 1]\nbackward = [1, 1]\noutput_bytes = [1, 1]\nstash_bytes = [1, 1]\n" +
           update;
  };
  const Profile in_measurement =
      parse_profile(text("", "update = [0.4, 0.4]\nupdate_is_step = true\n"), "p.toml");
  const Profile at_top =
      parse_profile(text("update_is_step = true\n", "update = [0.4, 0.4]\n"), "p.toml");
  EXPECT_EQ(at_top, in_measurement);
  EXPECT_EQ(in_measurement.measurements[0].update_is_step, true);
  EXPECT_EQ(parse_profile(to_toml(in_measurement), "again"), in_measurement);
  DeviceKind kind;
  kind.name = "v100";
  const auto update = [&](const Profile& profile) { return costs_on(profile, kind, 1).update; };
  EXPECT_THAT(update(in_measurement), testing::Pointwise(testing::DoubleEq(), {0.3, 0.1}));
  // Said of the measurement, it holds for that one.
  const Profile apart = parse_profile(
      text("update_is_step = true\n", "update = [0.4, 0.4]\nupdate_is_step = false\n"), "p.toml");
  EXPECT_THAT(update(apart), testing::ElementsAre(0.4, 0.4));
  EXPECT_EQ(parse_profile(to_toml(apart), "again"), apart);
  // Not said: layers that differ do not take one and the same time.
  EXPECT_THAT(update(parse_profile(text("", "update = [0.4, 0.4]\n"), "p.toml")),
              testing::Pointwise(testing::DoubleEq(), {0.3, 0.1}));
  EXPECT_THAT(update(parse_profile(text("", "update = [0.4, 0.1]\n"), "p.toml")),
              testing::ElementsAre(0.4, 0.1));

  EXPECT_THAT(test::user_error([&] {
                parse_profile(text("", "update = [0.4, 0.1]\nupdate_is_step = true\n"), "p.toml");
              }),
              HasSubstr("p.toml:16: [[measurement]]: update has 0.1 and 0.4, but update_is_step"));
  EXPECT_THAT(
      test::user_error([&] { parse_profile(text("", "update_is_step = true\n"), "p.toml"); }),
      HasSubstr("p.toml:16: [[measurement]]: update_is_step without update"));
}

TEST(ProfileFile, OperationsAndAllReducesOfALayer) {
  const auto text = [](const std::string& keys) {
    return "format = 1\nmodel = \"m\"\n[[layer]]\nname = \"a\"\nforward_flops = 1e9\n" + keys;
  };
  const Profile p =
      parse_profile(text("operations = 12\ngroup_all_reduce_bytes = 4e6\n"), "p.toml");
  EXPECT_EQ(p.layers[0].operations, 12);
  EXPECT_EQ(p.layers[0].group_all_reduce_bytes, 4e6);
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
  EXPECT_EQ(parse_profile(text(""), "p.toml").layers[0].operations, 1);
  const std::string error = test::user_error(
      [&] { parse_profile(text("operations = 0\ngroup_all_reduce_bytes = -1\n"), "p.toml"); });
  EXPECT_THAT(error, HasSubstr("p.toml:6: [[layer]] 0: operations = 0"));
  EXPECT_THAT(error, HasSubstr("p.toml:7: [[layer]] 0: group_all_reduce_bytes = -1"));
}

TEST(ProfileFile, WhatNobodyReadsIsForgottenOrAnOutput) {
  const auto file = [](const std::string& head) {
    return "format = 1\nmodel = \"m\"\n[[layer]]\nname = \"a\"\n" + head +
           "[[layer]]\nname = \"b\"\ninputs = []\n"
           "[[layer]]\nname = \"c\"\n"
           "[[measurement]]\ndevice = \"d\"\nbatch = 1\nforward = [1, 1, 1]\n"
           "backward = [1, 1, 1]\noutput_bytes = [1, 1, 1]\nstash_bytes = [1, 1, 1]\n";
  };
  EXPECT_THAT(
      test::user_error([&] { parse_profile(file(""), "p.toml"); }),
      HasSubstr("p.toml:3: layer 'a': no later layer reads its output (the graph is "
                "disconnected here). Name it in a later layer's inputs, or write output = true"));
  const Profile p = parse_profile(file("output = true\n"), "p.toml");
  EXPECT_TRUE(p.layers[0].output);
  EXPECT_EQ(parse_profile(to_toml(p), "again"), p);
}

}  // namespace profile_test
}  // namespace hetpipe
