// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/devices.h"
#include "runtime/pipeline/optimizer.h"

namespace hetpipe {
namespace learning_rate_test {

// The rates of minibatches 0, 1, ... from a base of 0.1.
void expect_rates(const RateSchedule& schedule, const std::vector<double>& expected) {
  for (std::size_t p = 0; p < expected.size(); ++p) {
    EXPECT_NEAR(rate_at(schedule, 0.1, static_cast<Minibatch>(p)), expected[p], 1e-12) << p;
  }
}

TEST(LearningRate, NamesParseBack) {
  for (const std::string& name : rate_rule_names()) {
    const auto rule = try_parse_rate_rule(name);
    ASSERT_TRUE(rule.has_value()) << name;
    EXPECT_EQ(to_string(*rule), name);
  }
  EXPECT_EQ(rate_rule_names().size(), 4u);
  EXPECT_EQ(try_parse_rate_rule("cosin"), std::nullopt);
}

TEST(LearningRate, IsConstantUnlessSaidOtherwise) {
  expect_rates({}, {0.1, 0.1, 0.1});
  EXPECT_EQ(rate_at({}, 0.3, 1'000'000), 0.3);
}

// PyTorch 1.13's MultiStepLR(milestones = [3, 5, 9], gamma = 0.5) and StepLR(4, gamma = 0.1).
TEST(LearningRate, StepsAsPyTorch) {
  expect_rates({.rule = RateRule::step, .decay = 0.5, .milestones = {3, 5, 9}, .length = 12},
               {0.1, 0.1, 0.1, 0.05, 0.05, 0.025, 0.025, 0.025, 0.025, 0.0125, 0.0125, 0.0125});
  expect_rates({.rule = RateRule::step, .decay = 0.1, .every = 4, .length = 12},
               {0.1, 0.1, 0.1, 0.1, 0.01, 0.01, 0.01, 0.01, 0.001, 0.001, 0.001, 0.001});
}

// CosineAnnealingLR(T_max = 10, eta_min = 0.01).
TEST(LearningRate, CosineAsPyTorch) {
  expect_rates({.rule = RateRule::cosine, .final_rate = 0.01, .length = 10},
               {0.1, 0.0977975432333, 0.0914057647469, 0.0814503363532, 0.0689057647469, 0.055,
                0.0410942352531, 0.0285496636468, 0.0185942352531, 0.0122024567667, 0.01, 0.01});
}

// PolynomialLR(total_iters = 8, power = 2).
TEST(LearningRate, PolynomialAsPyTorch) {
  expect_rates({.rule = RateRule::polynomial, .power = 2, .length = 8},
               {0.1, 0.0765625, 0.05625, 0.0390625, 0.025, 0.0140625, 0.00625, 0.0015625, 0, 0});
}

// SequentialLR of LinearLR(start_factor = 1/4, total_iters = 3) and CosineAnnealingLR(8, 0.02).
TEST(LearningRate, CosineBehindAWarmUpAsPyTorch) {
  expect_rates({.rule = RateRule::cosine, .warmup = 4, .final_rate = 0.02, .length = 12},
               {0.025, 0.05, 0.075, 0.1, 0.1, 0.0969551813005, 0.0882842712475, 0.0753073372946,
                0.06, 0.0446926627054, 0.0317157287525, 0.0230448186995});
}

TEST(LearningRate, WarmsUpBeforeEveryRule) {
  for (const std::string& name : rate_rule_names()) {
    const RateSchedule schedule{
        .rule = *try_parse_rate_rule(name), .warmup = 5, .milestones = {2, 7}, .length = 20};
    SCOPED_TRACE(name);
    expect_rates(schedule, {0.02, 0.04, 0.06, 0.08, 0.1});
    EXPECT_LE(rate_at(schedule, 0.1, 19), 0.1);
  }
}

// Milestones count from the training's start, those inside the warm-up too.
TEST(LearningRate, MilestonesCountFromTheStart) {
  const RateSchedule schedule{
      .rule = RateRule::step, .warmup = 5, .decay = 0.5, .milestones = {6.5, 8}, .length = 20};
  EXPECT_DOUBLE_EQ(rate_at(schedule, 0.1, 6), 0.1);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 0.1, 7), 0.05);
  EXPECT_DOUBLE_EQ(rate_at(schedule, 0.1, 8), 0.025);
}

// 0.1 epochs of 60 000 samples in rounds of 60: 100 minibatches, whatever 0.1 is in binary.
TEST(LearningRate, RoundingMovesNoStep) {
  const double every = 0.1 * 60000 / 60;
  const RateSchedule schedule{.rule = RateRule::step, .decay = 0.5, .every = every, .length = 1000};
  for (int k = 1; k < 10; ++k) {
    EXPECT_DOUBLE_EQ(rate_at(schedule, 1, k * 100), std::pow(0.5, k)) << k;
    EXPECT_DOUBLE_EQ(rate_at(schedule, 1, k * 100 - 1), std::pow(0.5, k - 1)) << k;
  }
}

// Minibatches of half the size after a resume at position 40: their numbers continue from 60, say.
TEST(LearningRate, ShiftedNumbersHaveTheRateOfTheirPosition) {
  RateSchedule schedule{.rule = RateRule::cosine, .warmup = 3, .length = 100};
  const double wanted = rate_at(schedule, 0.1, 40);
  schedule.shift = -20;
  EXPECT_DOUBLE_EQ(rate_at(schedule, 0.1, 60), wanted);
}

TEST(LearningRate, TheOptimizerFollowsIt) {
  const std::unique_ptr<Device> device = make_device("reference", 1);
  const std::unique_ptr<Stream> stream = device->make_stream();
  Optimizer optimizer(
      {.name = "sgd",
       .learning_rate = 0.5,
       .schedule = {.rule = RateRule::step, .decay = 0.5, .milestones = {2}, .length = 4}},
      *device, *stream, 1);
  const float weight = 0;
  for (const Minibatch p : {0, 1, 2, 3}) {
    Buffer gradient(*device, *stream, sizeof(float), MemoryKind::gradients);
    *gradient.as<float>() = 1;
    optimizer.update(p, p + 1, gradient, &weight);
    EXPECT_EQ(*gradient.as<float>(), p < 2 ? -0.5f : -0.25f) << p;
    EXPECT_EQ(optimizer.learning_rate(p), p < 2 ? 0.5 : 0.25);
  }
}

}  // namespace learning_rate_test
}  // namespace hetpipe
