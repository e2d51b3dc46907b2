// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/text.h"
#include "runtime/training/checkpoint.h"
#include "tests/end-to-end/training.h"

// The moving average of the weights at the servers: of every label, from the serial program's
// weights; evaluated, stored and continued.
namespace hetpipe {
namespace average_test {

constexpr double kDecay = 0.75;

Training averaged(int distance) {
  Training training{.model = "lenet-bn",
                    .samples = 150,
                    .workers = {{8, {4, 9}}, {5, {6}}},
                    .in_flight = 2,
                    .distance = distance,
                    .servers = 2};
  training.ema = kDecay;
  return training;
}

// By label, from `first`, where it is `start`.
std::map<Label, Floats> averages(const std::map<Label, SerialState>& at, Label first,
                                 Floats start) {
  std::map<Label, Floats> result{{first, start}};
  for (const auto& [label, state] : at) {
    if (label <= first) continue;
    for (std::size_t i = 0; i < start.size(); ++i) {
      const float kept = static_cast<float>(kDecay) * start[i];
      start[i] = kept + static_cast<float>(1 - kDecay) * state.weights[i];
    }
    result[label] = start;
  }
  return result;
}

void expect_averages(const Trained& trained, const std::map<Label, Floats>& expected,
                     const Model& model) {
  for (const auto& [label, checkpoint] : trained.checkpoints) {
    const Floats average = average_of(checkpoint, model);
    EXPECT_TRUE(average == expected.at(label)) << "label " << label;
    EXPECT_FALSE(average == state_of(checkpoint, model).weights) << "label " << label;
  }
}

TEST(Average, IsOfEveryLabelAndEvaluated) {
  for (const int distance : {0, 2}) {
    for (const std::string pull : {"bound", "newest"}) {
      for (const bool hosted : {false, true}) {
        SCOPED_TRACE(format("D = %d, %s, hosted %d", distance, pull.c_str(), hosted));
        Training training = averaged(distance);
        training.pull = pull;
        training.hosted = hosted;
        training.test_samples = 37;
        training.evaluate_every = 1;
        const Bench bench(training);
        const Trained trained = bench.train();
        const auto labels = trained.labels();
        const SerialWsp::Result serial = bench.serial(std::nullopt, [&](int worker, Wave wave) {
          return labels.at({worker, (wave + 1) * training.in_flight - 1});
        });
        expect_same(trained, serial, bench.model());  // training does not know of the average
        const auto expected = averages(serial.at, 0, serial.at.at(0).weights);
        expect_averages(trained, expected, bench.model());
        const auto losses = trained.metric("test_loss");
        EXPECT_EQ(static_cast<Label>(losses.size()), serial.label - 1 - distance);
        for (const MetricPoint& point : losses) {
          SerialState state = serial.at.at(point.wave);
          const auto loss = [&] {
            return evaluate_serially(bench.model(), bench.device(), bench.test_data(), state, 37)
                       .loss_sum /
                   37;
          };
          EXPECT_GT(std::abs(point.value - loss()), 1e-4 * point.value);
          state.weights = expected.at(point.wave);
          EXPECT_NEAR(point.value, loss(), 1e-5 * point.value);
        }
        EXPECT_NE(trained.said.find("(average of the weights): test loss"), std::string::npos);
      }
    }
  }
}

// Under another plan the average goes on from what the checkpoint has; where it has none, from the
// weights.
TEST(Average, ContinuesOnAnotherPlan) {
  const Trained before = Bench(averaged(0)).train();
  From from{before.checkpoints.at(3)};
  Training other = averaged(1);
  other.workers = {{8, {7}}, {5, {}}};
  other.servers = 1;
  const Bench bench(other);
  for (const bool has_one : {true, false}) {
    SCOPED_TRACE(has_one);
    if (!has_one) from.checkpoint.slots.erase(kAverageSlot);
    const Floats start = has_one ? average_of(from.checkpoint, bench.model())
                                 : state_of(from.checkpoint, bench.model()).weights;
    const SerialWsp::Result serial = bench.serial(from);
    const Trained trained = bench.train(from);
    expect_same(trained, serial, bench.model());
    expect_averages(trained, averages(serial.at, 3, start), bench.model());
  }
}

TEST(Average, IsNotThereUnlessAskedFor) {
  Training training = averaged(0);
  training.ema = 0;
  const Trained trained = Bench(training).train();
  EXPECT_FALSE(trained.checkpoints.at(trained.end()).slots.contains(kAverageSlot));
}

}  // namespace average_test
}  // namespace hetpipe
