// SPDX-License-Identifier: Apache-2.0
#include "partitioner/plan/layer_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"
#include "partitioner/plan/plan.h"

namespace hetpipe {
namespace layer_names_test {

Profile network() {
  Profile profile;
  profile.model = "net";
  for (const char* name : {"stem.conv", "stem.norm", "layer1.0.conv", "layer1.0", "layer1.0.relu",
                           "layer1.1.conv", "layer10.conv", "loss"}) {
    profile.layers.emplace_back().name = name;
  }
  return profile;
}

std::string file_with(const std::string& first, const std::string& second) {
  return "format = 1\nsystem = \"gpipe\"\nmodel = \"net\"\nminibatch = 8\n[[virtual_worker]]\n"
         "[[virtual_worker.stage]]\nlayers = " +
         first + "\ndevices = [\"n0:0\"]\n[[virtual_worker.stage]]\nlayers = " + second +
         "\ndevices = [\"n0:1\"]\n";
}

std::vector<std::vector<int>> stages_of(const std::string& text) {
  const Profile profile = network();
  std::vector<std::vector<int>> ranges;
  const Plan plan = parse_plan(text, "p.toml", &profile);
  for (const PlanStage& stage : plan.virtual_workers[0].stages) {
    ranges.push_back({stage.first_layer, stage.end_layer});
  }
  return ranges;
}

std::string refused(const std::function<void()>& work) {
  try {
    work();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(LayerNames, AreThoseOfTables) {
  EXPECT_EQ(layer_range(network(), 0, 4), "stem.conv..layer1.0");
  EXPECT_EQ(layer_range(network(), 7, 8), "loss");
}

TEST(LayerNames, OfALayerOrOfAModule) {
  const Profile profile = network();
  EXPECT_EQ(layer_named(profile, "stem", EndOfModule::first), 0);
  EXPECT_EQ(layer_named(profile, "stem", EndOfModule::last), 1);
  EXPECT_EQ(layer_named(profile, "layer1", EndOfModule::last), 5);     // not layer10
  EXPECT_EQ(layer_named(profile, "layer1.0", EndOfModule::first), 3);  // a layer of that name
}

TEST(PlanFile, GivesLayersByName) {
  const std::vector<std::vector<int>> halves{{0, 4}, {4, 8}};
  EXPECT_EQ(stages_of(file_with("[0, 4]", "[4, 8]")), halves);
  EXPECT_EQ(stages_of(file_with(R"(["stem", "layer1.0"])", R"(["layer1.0.relu", "loss"])")),
            halves);
  EXPECT_EQ(stages_of(file_with(R"(["stem"])", R"(["layer1.0.conv", "loss"])")),
            (std::vector<std::vector<int>>{{0, 2}, {2, 8}}));
}

TEST(PlanFile, IsWrittenWithTheNamesOfLayers) {
  Profile profile = network();
  profile.layers[3].name = "two\nlines";
  const Plan plan = parse_plan(file_with("[0, 4]", "[4, 8]"), "p.toml");
  const std::string text = to_toml(plan, &profile);
  EXPECT_THAT(text, testing::HasSubstr("layers = [0, 4]  # stem.conv..two lines\n"));
  EXPECT_EQ(parse_plan(text, "again"), plan);
}

TEST(PlanFile, SaysWhichNamesAreWrong) {
  EXPECT_THAT(refused([] { stages_of(file_with(R"(["stem", "layer1.0.rely"])", R"(["loss"])")); }),
              testing::HasSubstr("p.toml:7: layers: 'layer1.0.rely' is no layer or module of 'net' "
                                 "(did you mean 'layer1.0.relu'?). Its layers are in the profile, "
                                 "from 'stem.conv' to 'loss'."));
  EXPECT_THAT(refused([] { parse_plan(file_with(R"(["stem"])", "[2, 8]"), "p.toml"); }),
              testing::HasSubstr("p.toml:7: layers has names (which layers these are, the model's "
                                 "profile says). Give --profile FILE"));
  EXPECT_THAT(refused([] { stages_of(file_with(R"(["a", "b", "c"])", "[2, 8]")); }),
              testing::HasSubstr("layers needs two names"));
  EXPECT_THAT(refused([] { stages_of(file_with("[1, 2, 3]", "[2, 8]")); }),
              testing::HasSubstr("layers needs two numbers"));
  EXPECT_THAT(refused([] { stages_of(file_with("[\"stem\", 3]", "[2, 8]")); }),
              testing::HasSubstr("p.toml:7"));
}

}  // namespace layer_names_test
}  // namespace hetpipe
