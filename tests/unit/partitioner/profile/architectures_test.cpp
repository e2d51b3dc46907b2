// SPDX-License-Identifier: Apache-2.0
#include "architectures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace hetpipe {
namespace architectures_test {

double parameters(const Profile& profile) {
  double sum = 0;
  for (const ProfileLayer& layer : profile.layers) {
    sum += static_cast<double>(layer.parameter_bytes) / 4;
  }
  return sum;
}

double giga_multiply_adds(const Profile& profile) {
  double sum = 0;
  for (const ProfileLayer& layer : profile.layers) sum += layer.forward_flops / 2e9;
  return sum;
}

// Parameters and multiply-adds of one 224 x 224 image as torchvision states them for its models
// (it counts convolutions and linear layers; elementwise work is less than 1 % on top).
TEST(Architectures, ParametersAndFlopsAsPublished) {
  EXPECT_EQ(parameters(test::vgg19()), 143'667'240);
  EXPECT_NEAR(giga_multiply_adds(test::vgg19()), 19.632, 0.01 * 19.632);
  EXPECT_EQ(parameters(test::resnet50()), 25'557'032);
  EXPECT_NEAR(giga_multiply_adds(test::resnet50()), 4.089, 0.02 * 4.089);
  EXPECT_EQ(parameters(test::resnet101()), 44'549'160);
  EXPECT_NEAR(giga_multiply_adds(test::resnet101()), 7.801, 0.02 * 7.801);
  EXPECT_EQ(parameters(test::resnet152()), 60'192'808);
  EXPECT_NEAR(giga_multiply_adds(test::resnet152()), 11.514, 0.01 * 11.514);
}

TEST(Architectures, BlocksOfResNetAreSkippedOver) {
  const Profile p = test::resnet152();
  const auto at = [&](const std::string& name) {
    const auto found = std::find_if(p.layers.begin(), p.layers.end(),
                                    [&](const ProfileLayer& l) { return l.name == name; });
    EXPECT_NE(found, p.layers.end()) << name;
    return static_cast<int>(found - p.layers.begin());
  };
  const auto inputs_of = [&](const std::string& name) {
    return p.layers[static_cast<std::size_t>(at(name))].inputs;
  };
  EXPECT_EQ(inputs_of("layer1.1.add"), (std::vector<int>{at("layer1.0.add"), at("layer1.1.bn3")}));
  EXPECT_EQ(inputs_of("layer2.0.downsample"), std::vector<int>{at("layer1.2.add")});
  EXPECT_EQ(inputs_of("conv1"), std::vector<int>{});
  // Stages end at 56, 28, 14 and 7 pixels with 256 to 2048 channels.
  EXPECT_EQ(p.layers[static_cast<std::size_t>(at("layer3.35.add"))].output_bytes,
            1024.0 * 14 * 14 * 4);
  EXPECT_EQ(p.layers[static_cast<std::size_t>(at("layer4.2.add"))].output_bytes,
            2048.0 * 7 * 7 * 4);
  EXPECT_EQ(p.layers.back().output_bytes, 4000);
}

// The files are what the definitions make; HETPIPE_UPDATE=1 in the environment rewrites them.
TEST(Architectures, FilesAreUpToDate) {
  const auto folder = std::filesystem::path(HETPIPE_SOURCE_DIR) / "cluster-configs" / "profiles";
  for (const Profile& profile : {test::vgg19(), test::resnet152()}) {
    const auto path = folder / (profile.model + ".toml");
    const std::string text =
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# Nothing here was measured: parameters, flops and bytes per sample follow from the "
        "architecture (images of\n"
        "# 3 x 224 x 224, fp32), as tests/unit/partitioner/profile/architectures.cpp defines it. "
        "Plans made from this\n"
        "# file rest on estimates (docs/devices-and-profiles.md).\n" +
        to_toml(profile);
    if (std::getenv("HETPIPE_UPDATE") != nullptr) std::ofstream(path) << text;
    EXPECT_EQ(read_file(path), text) << path << ": run this test with HETPIPE_UPDATE=1";
    EXPECT_EQ(load_profile(path), profile);
  }
}

}  // namespace architectures_test
}  // namespace hetpipe
