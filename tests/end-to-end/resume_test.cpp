// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

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
