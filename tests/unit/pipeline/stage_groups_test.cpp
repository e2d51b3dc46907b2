// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "runtime/model/zoo.h"
#include "runtime/pipeline/stage.h"
#include "tests/unit/kernels/fusing_device.h"

// What a stage keeps of layers that are computed in one go. That the numbers are those of layers
// one by one is stage_test's.
namespace hetpipe {
namespace stage_groups_test {

TEST(StageGroups, KeepNothingOfWhatLiesBetween) {
  const Model model = make_model("lenet-bn", {6, 6, 1}, 4);
  test::FusingDevice device([](std::span<const ChainedLayer> chain) {
    return chain.size() == 2 && std::holds_alternative<BatchNorm>(chain[0].spec) &&
           std::holds_alternative<Relu>(chain[1].spec);
  });
  const auto stream = device.make_stream();
  const int layers = model.layer_count();
  Stage stage(model, {layers}, StageId{0}, 1, device, *stream);
  ASSERT_EQ(stage.groups(3).size(), static_cast<std::size_t>(layers - 3));
  std::vector<float> weights(static_cast<std::size_t>(stage.parameters().count()), 0.5f);
  std::vector<float> statistics(static_cast<std::size_t>(stage.statistics().count()), 1.0f);
  for (const Mode mode : {Mode::train, Mode::evaluate}) {
    Pass pass;
    pass.samples = 3;
    pass.keys = {{0, 0}, {0, 1}, {0, 2}};
    pass.images = Buffer(device, *stream, 3 * 36 * sizeof(float), MemoryKind::activations);
    pass.labels = Buffer(device, *stream, 3 * sizeof(std::int32_t), MemoryKind::activations);
    device.fill(*stream, pass.images.as<float>(), 1, 3 * 36);
    device.fill(*stream, pass.labels.as<float>(), 0, 3);
    stage.forward(pass, weights.data(), statistics.data(), mode);
    for (int l = 0; l < layers; ++l) {
      const auto at = static_cast<std::size_t>(l);
      const bool between = std::holds_alternative<BatchNorm>(model.layer(l).spec);
      EXPECT_EQ(pass.outputs[at].bytes() == 0, between) << l;
      EXPECT_TRUE(!between || pass.stashes[at].bytes() == 0) << l;
    }
    stage.drop_what_backward_read(pass);
  }
  EXPECT_EQ(device.memory().used(), 0u);
}

}  // namespace stage_groups_test
}  // namespace hetpipe
