// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/end-to-end/training.h"

// Pipelines that wait for each other at every wave (D = 0) reach the serial program's weights.
namespace hetpipe {
namespace wsp_test {

using Workers = std::vector<Training::Worker>;

Training small(const std::string& model, Workers workers, int in_flight) {
  Training training{.model = model, .workers = std::move(workers), .in_flight = in_flight};
  if (model.starts_with("resnet")) {
    training.sample = {8, 8, 3};
    training.samples = 60;
  }
  return training;
}

class Wsp : public ::testing::TestWithParam<std::string> {
 protected:
  void expect_like_serial(Training training) {
    training.device = GetParam();
    expect_trains_like_serial(training);
  }
};

// mlp: 7 layers, cuts at 3 and 5 leave a linear layer to every stage.
TEST_P(Wsp, WavesOfEveryLength) {
  for (int in_flight = 1; in_flight <= 4; ++in_flight) {
    SCOPED_TRACE(format("Nm = %d", in_flight));
    expect_like_serial(small("mlp", {{8, {3, 5}}, {8, {3, 5}}}, in_flight));
  }
}

TEST_P(Wsp, OneTwoAndThreeVirtualWorkersOfOneToThreeStages) {
  expect_like_serial(small("mlp", {{8, {}}}, 3));
  expect_like_serial(small("mlp", {{8, {3, 5}}}, 4));
  expect_like_serial(small("lenet", {{8, {}}, {8, {4}}}, 2));
  expect_like_serial(small("lenet-bn", {{8, {4}}, {8, {6, 10}}, {8, {}}}, 3));
}

// 200 samples: neither minibatches nor waves of (5, 9, 12) divide it, and workers end in different
// waves.
TEST_P(Wsp, UnequalMinibatches) {
  expect_like_serial(small("mlp", {{5, {3}}, {9, {}}, {12, {3, 5}}}, 3));
  Training training = small("lenet-bn", {{12, {4, 9}}, {5, {7}}}, 2);
  training.epochs = 1.3;
  expect_like_serial(training);
}

// The last round has samples for the first worker alone: the second one's run ends a wave earlier,
// or inside a wave.
TEST_P(Wsp, AWorkerThatEndsEarlier) {
  for (const std::int64_t samples : {72, 76, 80, 84, 88, 96, 104}) {
    SCOPED_TRACE(format("%d samples", static_cast<int>(samples)));
    Training training = small("mlp", {{8, {3}}, {8, {5}}}, 2);
    training.samples = samples;
    expect_like_serial(training);
  }
}

// Fewer minibatches than a wave, than are in flight, than there are virtual workers.
TEST_P(Wsp, AlmostNoData) {
  for (const std::int64_t samples : {3, 8, 9, 20}) {
    SCOPED_TRACE(format("%d samples", static_cast<int>(samples)));
    Training training = small("lenet-bn", {{8, {4}}, {8, {7}}}, 4);
    training.samples = samples;
    expect_like_serial(training);
  }
}

TEST_P(Wsp, TwoShards) {
  for (const bool hosted : {false, true}) {
    for (const std::string placement : {"default", "local"}) {
      SCOPED_TRACE(placement + (hosted ? ", hosted" : ""));
      Training training = small("lenet-bn", {{8, {4, 9}}, {6, {7}}}, 3);
      training.servers = 2;
      training.hosted = hosted;
      training.placement = placement;
      expect_like_serial(training);
    }
  }
}

TEST_P(Wsp, SkipsAndBatchNorm) {
  Training training = small("resnet-8", {{6, {6, 15}}, {4, {13}}}, 3);
  training.servers = 2;
  expect_like_serial(training);
}

TEST_P(Wsp, EveryOptimizer) {
  for (const std::string name : {"sgd", "sgd-momentum", "rmsprop", "adam", "adamw", "lamb"}) {
    SCOPED_TRACE(name);
    Training training = small("lenet", {{8, {4}}, {6, {6}}}, 3);
    training.optimizer = {.name = name, .rate = 0.003f, .momentum = 0.8f, .weight_decay = 0.01f};
    expect_like_serial(training);
  }
}

TEST_P(Wsp, MeanOfPushes) {
  for (const std::string scale : {"mean", "root"}) {
    for (const int other : {8, 5}) {
      SCOPED_TRACE(format("%s, minibatches of 8 and %d", scale.c_str(), other));
      Training training = small("mlp", {{8, {3}}, {other, {5}}}, 2);
      training.scale = scale;
      expect_like_serial(training);
    }
  }
}

// What an evaluation may not do: change anything. What it must say: loss and hits of its label,
// over every test sample once, however unequal the virtual workers' shares of them.
TEST_P(Wsp, EvaluationsTouchNothing) {
  for (const int distance : {0, 2}) {
    for (const std::string pull : {"bound", "newest"}) {
      SCOPED_TRACE(format("D = %d, %s", distance, pull.c_str()));
      Training training = small("lenet-bn", {{8, {4, 9}}, {5, {6}}}, 2);
      training.device = GetParam();
      training.distance = distance;
      training.pull = pull;
      training.test_samples = 37;
      training.evaluate_every = 1;
      const Bench bench(training);
      const Trained trained = bench.train();
      const auto labels = trained.labels();
      const SerialWsp::Result serial = bench.serial(std::nullopt, [&](int worker, Wave wave) {
        return labels.at({worker, (wave + 1) * training.in_flight - 1});
      });
      expect_same(trained, serial, bench.model());
      const auto losses = trained.metric("test_loss");
      const auto accuracies = trained.metric("test_accuracy");
      // Of every label that a gate of both rests on, and of the last one.
      EXPECT_EQ(static_cast<Label>(losses.size()), serial.label - 1 - distance);
      for (std::size_t i = 0; i < losses.size(); ++i) {
        const SerialEvaluation expected = evaluate_serially(
            bench.model(), bench.device(), bench.test_data(), serial.at.at(losses[i].wave), 37);
        EXPECT_NEAR(losses[i].value, expected.loss_sum / 37, 1e-5 * losses[i].value);
        EXPECT_EQ(accuracies[i].value, static_cast<double>(expected.correct) / 37);
      }
    }
  }
}

TEST_P(Wsp, ReportsItsLosses) {
  Training training = small("lenet", {{8, {4, 6}}, {5, {}}}, 3);
  training.device = GetParam();
  const Bench bench(training);
  const auto reported = bench.train().metric("loss");
  const SerialWsp::Result serial = bench.serial();
  ASSERT_EQ(static_cast<Label>(reported.size()), serial.label);
  for (Wave wave = 0; wave < serial.label; ++wave) {
    double sum = 0;
    std::size_t samples = 0;
    for (const auto& of_worker : serial.losses) {
      for (const auto& [p, losses] : of_worker) {
        if (p / training.in_flight != wave) continue;
        samples += losses.size();
        for (const float loss : losses) sum += static_cast<double>(loss);
      }
    }
    const MetricPoint& point = reported[static_cast<std::size_t>(wave)];
    EXPECT_EQ(point.wave, wave);
    EXPECT_NEAR(point.value, sum / static_cast<double>(samples), 1e-12 * point.value);
  }
}

TEST_P(Wsp, TwiceTheSame) {
  Training training = small("lenet-bn", {{8, {4, 9}}, {6, {7}}}, 3);
  training.device = GetParam();
  const Bench bench(training);
  expect_same(bench.train(), bench.train(), bench.model());
}

INSTANTIATE_TEST_SUITE_P(Devices, Wsp, ::testing::Values("reference", "cpu"),
                         [](const auto& param) { return param.param; });

}  // namespace wsp_test
}  // namespace hetpipe
