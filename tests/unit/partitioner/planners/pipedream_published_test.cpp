// SPDX-License-Identifier: Apache-2.0
// PipeDream's published optimizer and its profiles: the same cuts.
#include <gtest/gtest.h>

#include "../shared_profiles.h"
#include "partitioner/planners/pipedream_cut.h"
#include "partitioner/planners/replicated.h"

namespace hetpipe {
namespace pipedream_published_test {

// What PipeDream's published optimizer sees of a profile.
std::vector<LayerLoad> loads_of(const Profile& profile, int batch) {
  DeviceKind kind;
  kind.name = "v100";
  const LayerCosts costs = costs_on(profile, kind, batch);
  const PlacedLayers placed = placed_layers(profile);
  std::vector<LayerLoad> loads;
  for (int p = 0; p < placed.size(); ++p) {
    const auto l = static_cast<std::size_t>(placed.layers[static_cast<std::size_t>(p)]);
    loads.push_back({placed.inputs[static_cast<std::size_t>(p)],
                     costs.forward[l] + costs.backward[l],
                     static_cast<double>(profile.layers[l].parameter_bytes),
                     static_cast<double>(costs.output_bytes[l])});
  }
  return loads;
}

std::vector<int> replicas_of(const PipedreamCut& cut) {
  std::vector<int> replicas;
  for (const PipedreamStage& stage : cut.stages) replicas.push_back(stage.replicas);
  return replicas;
}

struct Vector {
  const char* file;
  std::vector<PipedreamLevel> levels;
  double seconds;  // of the published optimizer, activation transfers counted
  double speedup;
};

class PublishedOptimizer : public testing::TestWithParam<Vector> {};

TEST_P(PublishedOptimizer, SameObjective) {
  const auto path = test::shared_profile("pipedream", GetParam().file);
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no " << path;
  const Profile profile = load_profile(path, ProfileOrigin{"v100", 64});
  PipedreamRequest request;
  request.levels = GetParam().levels;
  const PipedreamStates states = antichain_states(loads_of(profile, 64));
  const PipedreamCut cut = pipedream_cut(states, request);
  EXPECT_NEAR(cut.seconds, GetParam().seconds, 1e-6 * GetParam().seconds);
  EXPECT_NEAR(states.seconds.back() / cut.seconds, GetParam().speedup, 1e-6 * GetParam().speedup);
}

INSTANTIATE_TEST_SUITE_P(
    Profiles, PublishedOptimizer,
    testing::Values(
        Vector{"vgg16.txt", {{4, 1e9}}, 0.205520896, 3.272343655021822},
        Vector{"vgg16.txt", {{16, 1.25e9}}, 0.05479489083076923, 12.273680808619263},
        Vector{"vgg16.txt", {{4, 1e10}, {4, 1.25e9}}, 0.06713399693333331, 10.017800678065594},
        Vector{
            "vgg16.txt", {{2, 1e10}, {2, 5e9}, {4, 1.25e9}}, 0.07906924386666665, 8.50564602760191},
        Vector{"alexnet.txt", {{16, 1.25e9}}, 0.0150994944, 5.6505865520901155},
        Vector{"resnet50.txt", {{16, 1.25e9}}, 0.04384779004444448, 10.112687539110793},
        Vector{"resnet50.txt", {{4, 1e10}, {4, 1.25e9}}, 0.04320846919999997, 10.262316814500808},
        Vector{"resnet101.txt", {{16, 1.25e9}}, 0.041819444, 9.830164169566684},
        Vector{"gnmt.txt", {{16, 1.25e9}}, 0.017125, 5.221372262773726},
        Vector{"gnmt.txt", {{4, 1e10}, {4, 1.25e9}}, 0.011081, 8.069307824203593}));

TEST(PipedreamCut, StagesOfTheVectors) {
  const auto cut_of = [](const char* file, int workers, double bandwidth) {
    const Profile profile =
        load_profile(test::shared_profile("pipedream", file), ProfileOrigin{"v100", 64});
    PipedreamRequest request;
    request.levels = {{workers, bandwidth}};
    return pipedream_cut(antichain_states(loads_of(profile, 64)), request);
  };
  if (!std::filesystem::exists(test::shared_profile("pipedream", "vgg16.txt"))) {
    GTEST_SKIP() << "no profiles";
  }
  const PipedreamCut four = cut_of("vgg16.txt", 4, 1e9);
  ASSERT_EQ(four.stages.size(), 2u);
  EXPECT_EQ(four.stages[0].state + 1, 17);
  EXPECT_EQ(four.stages[1].state + 1, 40);
  EXPECT_EQ(replicas_of(four), (std::vector<int>{3, 1}));
  // The second cut of this one costs the same at 31, 32 and 33: layers without time, whose outputs
  // are no bottleneck.
  const PipedreamCut sixteen = cut_of("vgg16.txt", 16, 1.25e9);
  ASSERT_EQ(sixteen.stages.size(), 3u);
  EXPECT_EQ(sixteen.stages[0].state + 1, 24);
  EXPECT_GE(sixteen.stages[1].state + 1, 31);
  EXPECT_LE(sixteen.stages[1].state + 1, 33);
  EXPECT_EQ(replicas_of(sixteen), (std::vector<int>{13, 2, 1}));
  EXPECT_EQ(replicas_of(cut_of("resnet50.txt", 16, 1.25e9)), (std::vector<int>{8, 5, 3}));
}

}  // namespace pipedream_published_test
}  // namespace hetpipe
