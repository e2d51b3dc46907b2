// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/text.h"
#include "tests/end-to-end/training.h"

// Learning rates that change and norms that are clipped, through pipelines of several stages: as
// the serial program, which has its own formulas, bit for bit.
namespace hetpipe {
namespace end_to_end_rates_test {

constexpr double kBase = 0.08;

// 300 samples in rounds of 14: 21 and 3/7 minibatches, the first epoch ends at 10 and 5/7.
Training small(const std::string& model, int distance) {
  Training training{.model = model,
                    .samples = 150,
                    .workers = {{8, {4, 9}}, {6, {7}}},
                    .in_flight = 3,
                    .distance = distance,
                    .epochs = 2};
  training.optimizer.rate = kBase;
  return training;
}

constexpr double kLength = 300.0 / 14;

Training with_cosine(Training training) {
  training.rate = {.schedule = "cosine", .warmup = 0.5, .final_rate = 0.01};
  training.optimizer.rate_of = [](Minibatch p) {
    const double base = static_cast<double>(static_cast<float>(kBase));
    const double warm = kLength / 4;
    const auto position = static_cast<double>(p);
    if (position < warm) return base * std::min(1.0, (position + 1) / warm);
    const double u = (position - warm) / (kLength - warm);
    return 0.01 + (base - 0.01) * (1 + std::cos(std::numbers::pi * u)) / 2;
  };
  return training;
}

TEST(Rates, CosineBehindAWarmUp) {
  for (const int distance : {0, 1})
    expect_trains_like_serial(with_cosine(small("lenet", distance)));
}

TEST(Rates, StepsWithAdam) {
  Training training = small("lenet-bn", 0);
  training.optimizer.name = "adam";
  training.optimizer.rate = 0.002f;
  training.rate = {.schedule = "step", .decay = 0.25, .steps = {0.5, 1}};
  training.optimizer.rate_of = [](Minibatch p) {  // 5.36 and 10.7 minibatches
    return static_cast<double>(0.002f) * (p < 6 ? 1 : p < 11 ? 0.25 : 0.0625);
  };
  expect_trains_like_serial(training);
}

// The rate is that of the minibatch's number, whatever the run started from.
TEST(Rates, AResumedRunGoesOn) {
  const Bench bench(with_cosine(small("lenet", 1)));
  const Trained whole = bench.train();
  for (const bool exact : {true, false}) {
    SCOPED_TRACE(exact ? "exactly" : "with empty pipelines");
    const From from{whole.checkpoints.at(3), exact};
    const Trained rest = bench.train(from);
    ASSERT_EQ(rest.end(), whole.end());
    if (!exact) {
      expect_same(rest, bench.serial(from), bench.model());
      continue;
    }
    for (const auto& [label, checkpoint] : rest.checkpoints) {
      EXPECT_TRUE(checkpoint.parameters == whole.checkpoints.at(label).parameters) << label;
    }
  }
}

// So short that nearly every gradient is clipped, and so long that some are.
TEST(Clipping, OfEachStage) {
  for (const double norm : {0.05, 1.5}) {
    for (const std::string device : {"reference", "cpu"}) {
      SCOPED_TRACE(format("%s, norm %g", device.c_str(), norm));
      Training training = small("lenet-bn", 1);
      training.device = device;
      training.optimizer.clip_norm = norm;
      training.optimizer.weight_decay = 0.01f;
      expect_trains_like_serial(training);
    }
  }
}

TEST(Clipping, OfEachWave) {
  for (const int distance : {0, 2}) {
    SCOPED_TRACE(format("D = %d", distance));
    Training training = with_cosine(small("lenet-bn", distance));
    training.optimizer.clip_norm = 0.3;
    training.optimizer.clips = SerialOptimizer::Clips::wave;
    expect_trains_like_serial(training);
  }
}

// Clipping does something: without it the weights are others.
TEST(Clipping, ChangesTheWeights) {
  Training training = small("lenet-bn", 0);
  const Trained plain = Bench(training).train();
  for (const auto clips : {SerialOptimizer::Clips::stage, SerialOptimizer::Clips::wave}) {
    training.optimizer.clip_norm = 0.3;
    training.optimizer.clips = clips;
    const Trained clipped = Bench(training).train();
    EXPECT_FALSE(clipped.checkpoints.at(2).parameters == plain.checkpoints.at(2).parameters);
  }
}

}  // namespace end_to_end_rates_test
}  // namespace hetpipe
