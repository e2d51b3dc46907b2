// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/end-to-end/training.h"

// Training on mixed samples (docs/data.md) against the serial program, whoever computes what.
namespace hetpipe {
namespace mixed_samples_test {

Training images(const std::string& device) {
  Training training{.model = "lenet",
                    .sample = {12, 12, 1},
                    .pixels = true,
                    .samples = 100,
                    .test_samples = 40,
                    .device = device,
                    .workers = {{12, {3}}, {8, {}}},
                    .in_flight = 2,
                    .distance = 1,
                    .mixes = {0.3, 0.7},
                    .epochs = 2};
  return training;
}

TEST(MixedSamples, TrainUnderWavesLikeTheSerialProgram) {
  for (const std::string device : {"reference", "cpu", "offload"}) {
    SCOPED_TRACE(device);
    expect_trains_like_serial(images(device));
  }
}

// Test samples are not mixed, and a resume goes on with the same mixtures.
TEST(MixedSamples, AreNotEvaluatedAndSurviveAResume) {
  const Bench bench(images("cpu"));
  const Trained whole = bench.train();
  const SerialEvaluation expected =
      evaluate_serially(bench.model(), bench.device(), bench.test_data(),
                        state_of(whole.checkpoints.at(whole.end()), bench.model()), 8);
  EXPECT_DOUBLE_EQ(*whole.outcome.test_accuracy, static_cast<double>(expected.correct) / 40);
  EXPECT_NEAR(*whole.outcome.test_loss, expected.loss_sum / 40, 1e-6);
  const Label middle = whole.end() / 2;
  const Trained rest = bench.train(From{whole.checkpoints.at(middle), true});
  expect_part_of(rest, whole, middle + 1, whole.end());
}

}  // namespace mixed_samples_test
}  // namespace hetpipe
