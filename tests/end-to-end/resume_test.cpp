// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "base/text.h"
#include "tests/end-to-end/training.h"

// A resumed run starts its pipelines empty: the first minibatches see the checkpoint's weights, and
// every virtual worker's optimizer resumes from the mean of all.
namespace hetpipe {
namespace resume_test {

void expect_resumes(const Training& training, const Checkpoint& checkpoint) {
  SCOPED_TRACE(format("from label %d", static_cast<int>(checkpoint.label)));
  const From from{checkpoint};
  const Bench bench(training);
  const SerialWsp::Result serial = bench.serial(from);
  ASSERT_GT(serial.label, checkpoint.label) << "nothing was left to do";
  expect_same(bench.train(from), serial, bench.model());
}

Training small(const std::string& model, int distance) {
  return {.model = model,
          .samples = 150,
          .workers = {{8, {4, 9}}, {6, {7}}},
          .in_flight = 3,
          .distance = distance,
          .epochs = 1.5};
}

TEST(Resume, OnTheSamePlan) {
  for (const std::string device : {"reference", "cpu"}) {
    for (const int distance : {0, 2}) {
      SCOPED_TRACE(format("%s, D = %d", device.c_str(), distance));
      Training training = small("lenet-bn", distance);
      training.device = device;
      const Trained before = Bench(training).train();
      ASSERT_GE(before.end(), 5);
      for (const Label label : {1, 3}) expect_resumes(training, before.checkpoints.at(label));
    }
  }
}

// Two moments, and the step that their bias is corrected by.
TEST(Resume, Adam) {
  Training training = small("lenet", 0);
  training.workers = {{8, {4}}, {6, {}}};
  training.optimizer.name = "adam";
  training.optimizer.rate = 0.002f;
  expect_resumes(training, Bench(training).train().checkpoints.at(2));
}

// A training of 225 samples on three plans in a row. What is counted goes on: Adam's step, by which
// it corrects the bias of its moments, the rate's place between warm-up and end, and what is said.
TEST(Resume, AdamAndTheRateGoOnUnderOtherWavesAndWorkers) {
  struct Plan {
    std::vector<Training::Worker> workers;
    int in_flight;
    Label from, to;        // labels; 0: nothing, its end
    double consumed;       // samples until there
    double round;          // samples of one minibatch of each worker
    std::int64_t updates;  // of each worker until there, counted by hand
    std::int64_t minibatches;
  };
  const std::vector<Plan> plans{
      {{{8, {4}}, {6, {}}}, 3, 0, 2, 0, 14, 0, 0},
      {{{5, {}}, {5, {4}}, {9, {3}}}, 2, 2, 4, 84, 19, 6, 12},
      {{{7, {}}}, 4, 4, 7, 160, 7, 10, 24},
  };
  std::optional<From> from;
  for (const Plan& plan : plans) {
    SCOPED_TRACE(format("from label %d", static_cast<int>(plan.from)));
    Training training = small("lenet", 0);
    training.workers = plan.workers;
    training.in_flight = plan.in_flight;
    training.optimizer.name = "adam";
    training.optimizer.rate = 0.002f;
    training.rate = {.schedule = "cosine", .warmup = 0.7, .final_rate = 0.0001};
    training.optimizer.rate_of = [plan](Minibatch p) {
      const double base = static_cast<double>(0.002f);
      const double warm = 0.7 * 150;
      const auto rounds = static_cast<double>(p - plan.from * plan.in_flight);
      const double samples = plan.consumed + rounds * plan.round;
      if (samples < warm) return base * std::min(1.0, (samples + plan.round) / warm);
      const double u = (samples - warm) / (225 - warm);
      return 0.0001 + (base - 0.0001) * (1 + std::cos(std::numbers::pi * u)) / 2;
    };
    const Bench bench(training);
    if (from) from->updates = plan.updates;
    const Trained trained = bench.train(from);
    expect_same(trained, bench.serial(from), bench.model());
    const Label first = plan.from + 1;
    EXPECT_THAT(trained.said, testing::HasSubstr(format("wave %4d/", static_cast<int>(first))));
    EXPECT_THAT(trained.said,
                testing::HasSubstr(
                    format("  step %5d  ", static_cast<int>(plan.updates + plan.in_flight))));
    for (const auto& [label, checkpoint] : trained.checkpoints) {
      if (checkpoint.sampler.consumed == 225) continue;  // its last wave is not full
      const std::int64_t done = (label - plan.from) * plan.in_flight;
      EXPECT_EQ(checkpoint.optimizer_step, plan.updates + done);
      EXPECT_EQ(checkpoint.worker_minibatches, plan.updates + done);
      EXPECT_EQ(checkpoint.minibatches,
                plan.minibatches + done * static_cast<std::int64_t>(plan.workers.size()));
    }
    if (::testing::Test::HasFailure()) return;
    from = From{trained.checkpoints.at(plan.to)};
  }
  EXPECT_EQ(from->checkpoint.sampler.consumed, 225);
  EXPECT_EQ(from->checkpoint.optimizer_step, 20);  // 65 samples by sevens: nine, and one of two
  EXPECT_EQ(from->checkpoint.minibatches, 34);
}

// A run's end, inside a wave, is a label too.
TEST(Resume, AfterTheEnd) {
  Training training = small("lenet-bn", 0);
  training.epochs = 1;
  const Trained before = Bench(training).train();
  EXPECT_EQ(before.checkpoints.at(before.end()).sampler.consumed, training.samples);
  training.epochs = 2.2;
  expect_resumes(training, before.checkpoints.at(before.end()));
}

TEST(Resume, OnAnotherPlan) {
  const Trained before = Bench(small("lenet-bn", 0)).train();
  Training other = small("lenet-bn", 1);
  other.workers = {{5, {}}, {5, {6}}, {9, {3, 10}}};
  other.in_flight = 2;
  other.servers = 2;
  expect_resumes(other, before.checkpoints.at(2));
}

// Resuming twice in a row is no different from resuming once: labels and samples continue.
TEST(Resume, Twice) {
  const Training training = small("lenet-bn", 0);
  const Bench bench(training);
  const Checkpoint first = bench.train().checkpoints.at(2);
  const Trained resumed = bench.train(From{first});
  EXPECT_FALSE(resumed.checkpoints.contains(2));
  const Checkpoint& second = resumed.checkpoints.at(4);
  EXPECT_EQ(second.sampler.consumed, 4 * 3 * 14);
  expect_resumes(training, second);
}

}  // namespace resume_test
}  // namespace hetpipe
