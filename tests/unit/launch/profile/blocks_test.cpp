// SPDX-License-Identifier: Apache-2.0
#include "launch/profile/blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hetpipe {
namespace launch_blocks_test {

std::vector<std::string> shown(const std::vector<std::string>& names, std::size_t most) {
  std::vector<std::string> rows;
  for (const LayerBlock& block : layer_blocks(names, most)) rows.push_back(block.name);
  return rows;
}

TEST(LayerBlocks, AreAsFineAsThereIsRoomFor) {
  std::vector<std::string> names{"stem"};
  for (const char* block : {"h.0", "h.1", "h.2"}) {
    for (const char* layer : {".norm", ".mlp.up", ".mlp.down", ""}) {
      names.push_back(std::string(block) + layer);
    }
  }
  names.emplace_back("loss");
  EXPECT_EQ(shown(names, 14), names);
  EXPECT_THAT(shown(names, 12),
              testing::ElementsAre("stem", "h.0.norm", "h.0.mlp (2 layers)", "h.0", "h.1.norm",
                                   "h.1.mlp (2 layers)", "h.1", "h.2.norm", "h.2.mlp (2 layers)",
                                   "h.2", "loss"));
  EXPECT_THAT(shown(names, 6), testing::ElementsAre("stem", "h.0 (4 layers)", "h.1 (4 layers)",
                                                    "h.2 (4 layers)", "loss"));
  EXPECT_THAT(shown(names, 3), testing::ElementsAre("stem", "h (12 layers)", "loss"));
  const LayerBlock last = layer_blocks(names, 6)[3];
  EXPECT_EQ(last.first, 9);
  EXPECT_EQ(last.end, 13);
}

TEST(LayerBlocks, LeaveNamesWithoutModulesAlone) {
  EXPECT_EQ(shown({"conv1", "conv2", "fc"}, 2), (std::vector<std::string>{"conv1", "conv2", "fc"}));
}

}  // namespace launch_blocks_test
}  // namespace hetpipe
