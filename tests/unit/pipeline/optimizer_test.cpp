// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/devices.h"

namespace hetpipe {
namespace pipeline_optimizer_test {

const std::vector<float> kWeights{1.0f, -2.0f, 0.5f};

// One optimizer of three weights on the reference device, everything in host memory.
class Rig {
 public:
  explicit Rig(const OptimizerOptions& options, const std::vector<bool>& frozen = {})
      : device_(make_device("reference", 1)),
        stream_(device_->make_stream()),
        optimizer(options, *device_, *stream_, std::vector<std::int64_t>(kWeights.size(), 1),
                  frozen) {}

  // The weight change that a gradient gives.
  std::vector<float> update(Minibatch p, std::vector<float> gradient) {
    Buffer buffer(*device_, *stream_, gradient.size() * sizeof(float), MemoryKind::gradients);
    std::copy(gradient.begin(), gradient.end(), buffer.as<float>());
    optimizer.update(p, p + 1, buffer, kWeights.data());
    return {buffer.as<float>(), buffer.as<float>() + gradient.size()};
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;

 public:
  Optimizer optimizer;
};

void expect_near(const std::vector<float>& values, const std::vector<double>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-6) << i;
}

TEST(Optimizer, SgdWithWeightDecay) {
  Rig rig({.name = "sgd", .learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.5});
  EXPECT_TRUE(rig.optimizer.slots().empty());
  // -(rate (g + decay w)); momentum belongs to the other one
  for (int again = 0; again < 2; ++again)
    expect_near(rig.update(again, {1, 2, 3}), {-.15, -.1, -.325});
}

TEST(Optimizer, MomentumBuildsUpAndIsLoaded) {
  const OptimizerOptions options{
      .name = "sgd-momentum", .learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0};
  Rig rig(options);
  expect_near(rig.update(0, {1, 2, -4}), {-.1, -.2, .4});
  expect_near(rig.update(1, {1, 0, -4}), {-.15, -.1, .6});  // v = .5 v + g
  ASSERT_EQ(rig.optimizer.slots().size(), 1u);
  const float* velocity = rig.optimizer.slots()[0].as<float>();
  Rig resumed(options);
  resumed.optimizer.load_slot(0, {velocity, kWeights.size()});
  EXPECT_EQ(resumed.update(2, {.25f, 1, 3}), rig.update(2, {.25f, 1, 3}));
}

// Kingma & Ba 2015, algorithm 1. The step counts the virtual worker's minibatches from the
// training's start, so that a resumed run corrects its moments' bias as the uninterrupted one does.
TEST(Optimizer, AdamCountsStepsAbsolutely) {
  Rig rig({.name = "adam", .learning_rate = 0.01, .momentum = 0, .weight_decay = 0});
  EXPECT_EQ(rig.optimizer.slots().size(), 2u);
  expect_near(rig.update(0, {4, -3, .5}), {-.01, .01, -.01});  // the first step is rate * sign(g)
  Rig later({.name = "adam", .learning_rate = 0.01, .momentum = 0, .weight_decay = 0});
  const double first = .1 / (1 - std::pow(.9, 10)), second = .001 / (1 - std::pow(.999, 10));
  const double step = -.01 * first / std::sqrt(second);
  expect_near(later.update(9, {4, -3, .5}), {step, -step, step});
}

TEST(Optimizer, FrozenParametersStay) {
  for (const char* name : {"sgd", "sgd-momentum", "adam"}) {
    SCOPED_TRACE(name);
    const OptimizerOptions options{
        .name = name, .learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.5};
    Rig all(options), some(options, {false, true, false});
    for (int p = 0; p < 2; ++p) {
      std::vector<float> expected = all.update(p, {1, 2, 3});
      expected[1] = 0;
      EXPECT_EQ(some.update(p, {1, 2, 3}), expected);
    }
    for (const Buffer& slot : some.optimizer.slots()) EXPECT_EQ(slot.as<float>()[1], 0);
  }
  // Their gradients are no part of the norm that is clipped to.
  OptimizerOptions clipped{.name = "sgd", .learning_rate = 1, .momentum = 0, .weight_decay = 0};
  clipped.clipping = {.max_norm = 5, .scope = ClipScope::stage};
  Rig rig(clipped, {false, true, false});
  expect_near(rig.update(0, {6, 1000, 8}), {-3, 0, -4});
}

TEST(Optimizer, SlotNames) {
  EXPECT_TRUE(optimizer_slot_names("sgd").empty());
  EXPECT_EQ(optimizer_slot_names("sgd-momentum"), std::vector<std::string>{"velocity"});
  EXPECT_EQ(optimizer_slot_names("adam"),
            (std::vector<std::string>{"first_moment", "second_moment"}));
  try {
    optimizer_slot_names("adma");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("'adma'"), std::string::npos) << error.what();
  }
}

TEST(OptimizerDeathTest, RefusesStateOfAnotherSize) {
  Rig rig({.name = "sgd-momentum"});
  EXPECT_DEATH(rig.optimizer.load_slot(0, std::vector<float>(2)), "another size");
}

}  // namespace pipeline_optimizer_test
}  // namespace hetpipe
