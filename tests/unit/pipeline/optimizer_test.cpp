// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "base/error.h"
#include "kernels/devices.h"
#include "runtime/model/zoo.h"

namespace hetpipe {
namespace pipeline_optimizer_test {

const std::vector<float> kWeights{1.0f, -2.0f, 0.5f};
const std::vector<OptimizedParameter> kSecondFrozen{{1}, {.count = 1, .frozen = true}, {1}};

// One optimizer of three weights on the reference device, everything in host memory.
class Rig {
 public:
  explicit Rig(const OptimizerOptions& options,
               const std::vector<OptimizedParameter>& parameters = {{1}, {1}, {1}})
      : device_(make_device("reference", 1)),
        stream_(device_->make_stream()),
        optimizer(options, *device_, *stream_, parameters) {}

  // The weight change that a gradient gives.
  std::vector<float> update(Minibatch p, std::vector<float> gradient) {
    Buffer buffer(*device_, *stream_, gradient.size() * sizeof(float), MemoryKind::gradients);
    std::copy(gradient.begin(), gradient.end(), buffer.as<float>());
    optimizer.update(p, p + 1, buffer, kWeights.data());
    return {buffer.as<float>(), buffer.as<float>() + gradient.size()};
  }

  // `steps` updates ahead of kWeights.
  std::vector<float> ahead(Minibatch p, int steps, std::int64_t updates) {
    std::vector<float> weights(kWeights.size());
    optimizer.look_ahead(p, steps, updates, kWeights.data(), weights.data());
    return weights;
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
  for (const char* name : {"sgd", "sgd-momentum", "rmsprop", "adam", "adamw", "lamb"}) {
    SCOPED_TRACE(name);
    const OptimizerOptions options{
        .name = name, .learning_rate = 0.1, .momentum = 0.5, .weight_decay = 0.5};
    Rig all(options), some(options, kSecondFrozen);
    for (int p = 0; p < 2; ++p) {
      std::vector<float> expected = all.update(p, {1, 2, 3});
      expected[1] = 0;
      EXPECT_EQ(some.update(p, {1, 2, 3}), expected);
      EXPECT_EQ(some.ahead(p, 2, p + 1)[1], kWeights[1]);
    }
    for (const Buffer& slot : some.optimizer.slots()) EXPECT_EQ(slot.as<float>()[1], 0);
  }
  // Their gradients are no part of the norm that is clipped to.
  OptimizerOptions clipped{.name = "sgd", .learning_rate = 1, .momentum = 0, .weight_decay = 0};
  clipped.clipping = {.max_norm = 5, .scope = ClipScope::stage};
  Rig rig(clipped, kSecondFrozen);
  expect_near(rig.update(0, {6, 1000, 8}), {-3, 0, -4});
}

// torch.optim.SGD(lr=0.1, momentum=0.5, nesterov=True): d = g + momentum v.
TEST(Optimizer, Nesterov) {
  Rig rig({.name = "sgd-momentum", .learning_rate = 0.1, .momentum = 0.5, .nesterov = true});
  expect_near(rig.update(0, {1, 2, -4}), {-.15, -.3, .6});
  expect_near(rig.update(1, {1, 0, -4}), {-.175, -.05, .7});  // v = 1.5, 1, -6
  // Predictions go on along v.
  expect_near(rig.ahead(1, 2, 2), {1 - .3, -2 - .2, .5 + 1.2});
}

// The first step's m^/(sqrt(v^) + epsilon) is the gradient's sign.
TEST(Optimizer, AdamWDecaysApartFromTheGradient) {
  Rig rig({.name = "adamw", .learning_rate = 0.01, .weight_decay = 0.5},
          {{1}, {.count = 1, .decays = false}, {1}});
  expect_near(rig.update(0, {4, -3, .5}), {-.01 * (1 + .5), .01, -.01 * (1 + .25)});
  EXPECT_FLOAT_EQ(rig.optimizer.slots()[0].as<float>()[0], .4f);  // of the gradient alone
  // Three steps on: the same direction, and decay by the weights that are predicted from.
  expect_near(rig.ahead(0, 3, 1), {1 - .03 * 1.5, -2 + .03, .5 - .03 * 1.25});
  EXPECT_EQ(rig.ahead(0, 3, 0), kWeights);  // before the first update
}

TEST(Optimizer, BetasAndEpsilon) {
  Rig rig({.name = "adam", .learning_rate = 1, .beta1 = .5, .beta2 = .75, .epsilon = 2});
  expect_near(rig.update(0, {4, -2, 1}), {-4. / 6, 2. / 4, -1. / 3});
  // m = .5 (.5 g) + .5 g', v = .75 (.25 g g) + .25 g' g'; bias .75 and .4375
  const double m = (.25 * 4 + .5 * 2) / .75, v = (.75 * .25 * 16 + .25 * 4) / .4375;
  EXPECT_NEAR(rig.update(1, {2, 0, 0})[0], -m / (std::sqrt(v) + 2), 1e-6);
}

// arXiv 1904.00962, algorithm 2: a parameter of two elements, and one of one.
TEST(Optimizer, LambStepsAsFarAsTheWeightsAreLong) {
  const OptimizerOptions options{.name = "lamb", .learning_rate = 0.01, .weight_decay = 0.5};
  Rig rig(options, {{2}, {.count = 1, .decays = false}});
  // r = sign(g); u = r + .5 w = (1.5, -2), |w| = sqrt(5), |u| = 2.5; u = (-1), |w| = .5
  const double by = .01 * std::sqrt(5.) / 2.5;
  expect_near(rig.update(0, {4, -3, -2}), {-1.5 * by, 2 * by, .01 * .5});
  // As one parameter it is another step: norms are of each.
  Rig one(options, {{3}});
  EXPECT_NE(one.update(0, {4, -3, -2})[0], static_cast<float>(-1.5 * by));
  // No update at all, and no division by its norm.
  Rig still({.name = "lamb", .learning_rate = 0.01}, {{3}});
  expect_near(still.update(0, {0, 0, 0}), {0, 0, 0});
}

// Two parameters, of four and two elements, whose gradients are sin(t + 0.7 i) at step t: the
// algorithm in PyTorch 2.15's double precision, with its norm(): lr = 0.01, eps = 1e-6, decay 0.01.
TEST(Optimizer, LambAsPyTorchComputesIt) {
  const std::unique_ptr<Device> device = make_device("reference", 1);
  const std::unique_ptr<Stream> stream = device->make_stream();
  Optimizer optimizer(
      {.name = "lamb", .learning_rate = 0.01, .epsilon = 1e-6, .weight_decay = 0.01}, *device,
      *stream, std::vector<OptimizedParameter>{{4}, {2}});
  const std::vector<std::vector<double>> expected{
      {0.98105793, -2.01837944, 0.481151708, 2.98068327, -0.248019877, 0.126972717},
      {0.956561479, -2.03993637, 0.472234422, 2.99714339, -0.246040038, 0.128933286},
      {0.931165785, -2.04976584, 0.482222674, 3.02136936, -0.243729624, 0.130475342},
      {0.919649889, -2.04308252, 0.503366397, 3.04998128, -0.240981762, 0.130778733},
      {0.92535431, -2.02217338, 0.530135858, 3.06645048, -0.240693174, 0.128052151}};
  std::vector<float> weights{1, -2, 0.5f, 3, -0.25f, 0.125f};
  for (int t = 1; t <= 5; ++t) {
    Buffer gradient(*device, *stream, 6 * sizeof(float), MemoryKind::gradients);
    for (int i = 0; i < 6; ++i) {
      gradient.as<float>()[i] = static_cast<float>(std::sin(t + 0.7 * i));
    }
    optimizer.update(t - 1, t, gradient, weights.data());
    device->add(*stream, weights.data(), gradient.as<float>(), 6);
    for (std::size_t i = 0; i < 6; ++i) {
      const double wanted = expected[static_cast<std::size_t>(t - 1)][i];
      EXPECT_NEAR(weights[i], wanted, 1e-6 * std::abs(wanted)) << "step " << t << ", " << i;
    }
  }
}

TEST(Optimizer, LambLooksAlongItsLastUpdate) {
  Rig rig({.name = "lamb", .learning_rate = 0.1}, {{3}});
  rig.optimizer.prepare_to_look_ahead();
  EXPECT_EQ(rig.ahead(0, 2, 0), kWeights);
  const std::vector<float> last = rig.update(0, {4, -3, -2});
  const std::vector<float> ahead = rig.ahead(0, 2, 1);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_FLOAT_EQ(ahead[i], kWeights[i] + 2 * last[i]);
}

// Runs of parameters with one rate are one; the middle one has ten times less.
TEST(Optimizer, RatesOfGroups) {
  for (const char* name : {"sgd", "sgd-momentum", "rmsprop", "adam", "adamw", "lamb"}) {
    SCOPED_TRACE(name);
    const OptimizerOptions options{.name = name, .learning_rate = 0.25, .momentum = 0.5};
    Rig all(options), some(options, {{1}, {.count = 1, .rate = .5}, {1}});
    all.optimizer.prepare_to_look_ahead();
    some.optimizer.prepare_to_look_ahead();
    for (int p = 0; p < 2; ++p) {
      std::vector<float> expected = all.update(p, {1, 2, 3});
      expected[1] *= .5f;
      EXPECT_EQ(some.update(p, {1, 2, 3}), expected);
      std::vector<float> ahead = all.ahead(p, 2, p + 1);
      ahead[1] = all.ahead(p, 1, p + 1)[1];
      EXPECT_EQ(some.ahead(p, 2, p + 1), ahead);
    }
  }
}

TEST(Optimizer, PatternsCoverParametersAndModules) {
  for (const char* pattern : {"h.1.mlp/weight", "h.1.mlp.weight", "h.1.mlp", "h.1", "h", "h.?", "*",
                              "*.mlp", "h*weight", "*weight", "h.*.mlp", "**"}) {
    EXPECT_TRUE(covers(pattern, "h.1.mlp/weight")) << pattern;
  }
  for (const char* pattern : {"h.1.ml", "mlp", "weight", "H", "h.1.mlp.weight.", "h.??", "",
                              "*.bias", "h.1.mlp.weights"}) {
    EXPECT_FALSE(covers(pattern, "h.1.mlp/weight")) << pattern;
  }
  EXPECT_FALSE(covers("h.1", "h.10.mlp/weight"));
}

TEST(Optimizer, WhichParametersDecayAndAtWhichRate) {
  const Model model = make_model("lenet-bn", Shape{8, 8, 1}, 3);
  const auto layout = ParameterLayout::parameters(model, 0, model.layer_count());
  const std::vector<RateOf> rates{{"conv2/weight", 3}, {"conv*", .1}};
  const auto all = optimized_parameters(layout, true, {});
  const auto some = optimized_parameters(layout, false, rates);
  ASSERT_EQ(some.size(), layout.entries().size());
  int vectors = 0;
  for (std::size_t i = 0; i < some.size(); ++i) {
    const std::string& name = layout.entries()[i].name;
    const bool matrix =
        (name.starts_with("conv") || name.starts_with("linear")) && name.ends_with("/weight");
    EXPECT_EQ(some[i].decays, matrix) << name;
    EXPECT_TRUE(all[i].decays);
    EXPECT_EQ(all[i].rate, 1);
    EXPECT_EQ(some[i].rate, name == "conv2/weight" ? 3 : name.starts_with("conv") ? .1 : 1) << name;
    vectors += matrix ? 0 : 1;
    const auto& [rows, columns, inputs_first] = all[i].matrix;  // as damping sees it
    EXPECT_EQ(rows > 0, matrix) << name;
    EXPECT_EQ(rows * columns, matrix ? all[i].count : 0) << name;
    EXPECT_EQ(inputs_first, name == "linear1/weight" || name == "linear2/weight") << name;
  }
  EXPECT_GT(vectors, 4);
}

TEST(OptimizerDeathTest, RefusesStateOfAnotherSize) {
  Rig rig({.name = "sgd-momentum"});
  EXPECT_DEATH(rig.optimizer.load_slot(0, std::vector<float>(2)), "another size");
}

}  // namespace pipeline_optimizer_test
}  // namespace hetpipe
