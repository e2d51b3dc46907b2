// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>

#include "base/text.h"
#include "runtime/pipeline/loss_scale.h"
#include "runtime/training/exact.h"
#include "tests/end-to-end/training.h"

// A run that stops anywhere and is continued on the same plan ends as if it had never stopped, bit
// for bit, and so does every checkpoint on the way.
namespace hetpipe {
namespace exact_test {

Training small(const std::string& model, int in_flight, int distance) {
  return {.model = model,
          .samples = 150,
          .workers = {{8, {4, 9}}, {6, {7}}},
          .in_flight = in_flight,
          .distance = distance,
          .servers = 2,
          .epochs = 1.5};
}

void expect_continues(const Training& training, const std::vector<Label>& labels) {
  const Bench bench(training);
  const Trained whole = bench.train();
  for (const Label label : labels) {
    SCOPED_TRACE(format("continued at label %d of %d", static_cast<int>(label),
                        static_cast<int>(whole.end())));
    ASSERT_LT(label, whole.end());
    expect_part_of(bench.train(From{whole.checkpoints.at(label), true}), whole, label + 1,
                   whole.end());
  }
}

TEST(Exact, EveryLengthOfWaveAndDistance) {
  for (const int in_flight : {1, 2, 3, 4}) {
    for (const int distance : {0, 1, 3}) {
      SCOPED_TRACE(format("Nm = %d, D = %d", in_flight, distance));
      expect_continues(small("lenet-bn", in_flight, distance), {1, 2, 3});
    }
  }
}

TEST(Exact, EveryOptimizer) {
  for (const char* optimizer : {"sgd", "sgd-momentum", "rmsprop", "adam", "adamw", "lamb"}) {
    SCOPED_TRACE(optimizer);
    Training training = small("lenet", 3, 1);
    training.optimizer.name = optimizer;
    training.optimizer.rate = 0.003f;
    training.optimizer.weight_decay = 0.01f;
    training.optimizer.nesterov = true;  // of sgd-momentum
    training.optimizer.vectors_decay = false;
    training.rates = {{"linear*", 0.5}};
    expect_continues(training, {2});
  }
}

// The servers' average too, of the labels before as well: gates that come again evaluate it.
TEST(Exact, WithTheAverageOfTheWeights) {
  for (const int distance : {0, 2}) {
    Training training = small("lenet-bn", 2, distance);
    training.ema = 0.9;
    training.test_samples = 20;
    training.evaluate_every = 1;
    const Bench bench(training);
    const auto evaluations = [](const Trained& trained) {
      std::map<Wave, double> losses;
      for (const MetricPoint& point : trained.metric("test_loss")) losses[point.wave] = point.value;
      return losses;
    };
    const Trained whole = bench.train();
    const auto expected = evaluations(whole);
    for (const Label label : {1, 3}) {
      const Trained part = bench.train(From{whole.checkpoints.at(label), true});
      expect_part_of(part, whole, label + 1, whole.end());
      const auto again = evaluations(part);
      EXPECT_FALSE(again.empty());
      for (const auto& [wave, loss] : again) EXPECT_EQ(loss, expected.at(wave)) << wave;
    }
  }
}

TEST(Exact, OnTheCpuDeviceWithHostedServersAndOtherPlacements) {
  Training training = small("lenet-bn", 2, 0);
  training.device = "cpu";
  training.hosted = true;
  training.placement = "local";
  training.scale = "mean";
  training.workers = {{8, {4, 9}}, {6, {}}, {3, {7}}};
  expect_continues(training, {1, 4});
}

// In fp16 the scale of the loss continues too: with how many minibatches it has held, and where.
TEST(Exact, InFp16) {
  Training training = small("mlp", 2, 1);
  training.workers = {{8, {2}}, {6, {}}};
  training.samples = 80;
  training.device = "offload";
  training.precision = Precision::fp16;
  training.optimizer.rate = 0.003f;
  expect_continues(training, {1, 3});
  const Trained whole = Bench(training).train();
  int scales = 0;
  for (const NamedTensor& tensor : whole.checkpoints.at(3).exact->tensors) {
    if (!tensor.name.ends_with("/loss-scale")) continue;
    EXPECT_EQ(tensor.values, (std::vector<float>{LossScale::kFirst, 3 * 2})) << tensor.name;
    ++scales;
  }
  EXPECT_EQ(scales, 2);  // of the last stage of both virtual workers
  training.precision = Precision::bf16;
  EXPECT_EQ(why_not_exact(whole.checkpoints.at(3), Bench(training).job_of()),
            "it was written under another --device or --precision");
}

// Where one virtual worker has nothing left to do, and inside of the last, partial wave of another.
TEST(Exact, NearTheEnd) {
  Training training = small("mlp", 2, 0);
  training.workers = {{8, {2}}, {8, {}}};
  training.epochs = 1;
  training.samples = 16 * 5 + 8 + 3;
  const Bench bench(training);
  const Trained whole = bench.train();
  ASSERT_EQ(whole.end(), 3);
  expect_continues(training, {1, 2});
}

// A run that has ended continues with more epochs as one that was to have them from the start.
TEST(Exact, MoreEpochsAfterAFullWave) {
  Training longer = small("lenet", 2, 0);
  longer.samples = 14 * 2 * 4;
  longer.epochs = 2;
  Training shorter = longer;
  shorter.epochs = 1;
  const Trained first = Bench(shorter).train();
  const Trained whole = Bench(longer).train();
  const Trained rest = Bench(longer).train(From{first.checkpoints.at(first.end()), true});
  ASSERT_EQ(first.end() * 2, whole.end());
  const Checkpoint& end = rest.checkpoints.at(whole.end());
  EXPECT_TRUE(end.parameters == whole.checkpoints.at(whole.end()).parameters);
  EXPECT_TRUE(end.slots == whole.checkpoints.at(whole.end()).slots);
}

TEST(Exact, NotUnderAnotherPlanNorInsideOfAWave) {
  Training training = small("mlp", 2, 0);
  training.workers = {{8, {4}}, {6, {3}}};
  const Trained trained = Bench(training).train();
  const auto why = [&](const Training& other, Label label) {
    const Bench bench(other);
    return why_not_exact(trained.checkpoints.at(label), bench.job_of());
  };
  EXPECT_EQ(why(training, 2), std::nullopt);
  Training other = training;
  other.workers[0].stage_ends = {2};
  EXPECT_EQ(why(other, 2), "it was written under another plan");
  other = training;
  other.epochs = 2;
  EXPECT_EQ(why(other, 2), std::nullopt);
  EXPECT_EQ(why(other, trained.end()),
            "its run was to end at another point (--epochs), within a wave");
}

// Stopped on request at any moment: the label at which all agreed is that of an undisturbed run.
// Of Nm minibatches in flight and clock distance D.
class StoppedOnRequest : public testing::TestWithParam<std::tuple<int, int>> {};

void expect_stops_and_continues(Training training) {
  training.epochs = 3;
  training.test_samples = 20;
  training.evaluate_every = 1;
  const Bench bench(training);
  const Trained whole = bench.train();
  for (const int polls : {1, 40, 400}) {
    SCOPED_TRACE(format("after %d polls", polls));
    std::atomic<int> asked = 0;
    const Trained first = bench.train(std::nullopt, [&]() -> std::optional<int> {
      return ++asked > polls ? std::optional(SIGUSR1) : std::nullopt;
    });
    if (first.code == ExitCode::done) {  // it was too late to stop
      expect_part_of(first, whole, 1, whole.end());
      continue;
    }
    ASSERT_EQ(first.code, ExitCode::stopped);
    ASSERT_LT(first.end(), whole.end());
    EXPECT_EQ(first.outcome.stopped, first.end());
    expect_part_of(first, whole, 1, first.end());
    const From from{first.checkpoints.at(first.end()), true};
    expect_part_of(bench.train(from), whole, first.end() + 1, whole.end());
  }
}

TEST_P(StoppedOnRequest, AndContinued) {
  const auto [in_flight, distance] = GetParam();
  expect_stops_and_continues(small("lenet-bn", in_flight, distance));
}

TEST(StoppedOnRequestWithAnAverage, AndContinued) {
  Training training = small("lenet-bn", 3, 1);
  training.ema = 0.9;
  expect_stops_and_continues(training);
}

// On a device whose receives are not over before they have a message.
TEST(StoppedWithTiedWeights, AndContinued) {
  Training training = small("gpt2-tiny", 3, 1);
  training.sample = {3};
  training.workers = {{8, {14, 30}}, {6, {20}}};
  training.device = "offload";
  training.optimizer.rate = 0.003f;
  expect_stops_and_continues(training);
}

TEST(StoppedWithTiedWeights, WithoutServers) {
  for (const std::string system : {"spectrain", "pipedream-2bw"}) {
    SCOPED_TRACE(system);
    Training training = small("gpt2-tiny", 3, 0);
    training.system = system;
    training.sample = {3};
    training.workers = {{8, {14, 30}}, {6, {20}}};
    training.device = "offload";
    training.epochs = 1;
    training.optimizer.rate = 0.003f;
    const Bench bench(training);
    const Trained whole = bench.train();
    for (const int polls : {1, 100}) {
      std::atomic<int> asked = 0;
      const Trained first = bench.train(std::nullopt, [&]() -> std::optional<int> {
        return ++asked > polls ? std::optional(SIGUSR1) : std::nullopt;
      });
      for (const auto& [label, checkpoint] : first.checkpoints) {
        EXPECT_TRUE(checkpoint.parameters == whole.checkpoints.at(label).parameters) << label;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Exact, StoppedOnRequest,
                         testing::Combine(testing::Values(1, 3), testing::Values(0, 2)),
                         [](const auto& named) {
                           return format("%d_%d", std::get<0>(named.param),
                                         std::get<1>(named.param));
                         });

}  // namespace exact_test
}  // namespace hetpipe
