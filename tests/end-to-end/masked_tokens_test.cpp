// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/end-to-end/training.h"

// A model that sees all tokens of a sample learns to fill in masked ones: neither the label beside
// a token nor any other way shows it what it has to predict.
namespace hetpipe {
namespace masked_tokens_test {

// Eight tokens and the mask. Three of four follow from the token before, so that who sees both
// neighbours of a hidden one can guess it mostly, and never always.
Training text() {
  Training training{.model = "bert-tiny",
                    .sample = {8},
                    .classes = 9,
                    .samples = 640,
                    .test_samples = 400,
                    .device = "cpu",
                    .workers = {{64, {14}}},
                    .system = "gpipe",
                    .micro_batches = 2,
                    .epochs = 8};
  training.optimizer = {.name = "adam", .rate = 0.005f};
  return training;
}

TEST(MaskedTokens, AreLearntAndNotSeen) {
  const Bench bench(text());
  const Trained trained = bench.train();
  ASSERT_TRUE(trained.outcome.test_accuracy.has_value());

  // Who knows the shares of tokens alone.
  const std::vector<std::int32_t>& tokens = bench.test_data().labels;
  std::map<std::int32_t, int> counts;
  for (const std::int32_t token : tokens) ++counts[token];
  int most = 0;
  for (const auto& [token, count] : counts) most = std::max(most, count);
  const double unigram = most / static_cast<double>(tokens.size());

  EXPECT_LT(unigram, 0.2);
  RecordProperty("accuracy", std::to_string(*trained.outcome.test_accuracy));
  EXPECT_GT(*trained.outcome.test_accuracy, unigram + 0.15);
  EXPECT_LT(*trained.outcome.test_accuracy, 0.9);

  const Label end = trained.end();
  const SerialEvaluation expected =
      evaluate_serially(bench.model(), bench.device(), bench.test_data(),
                        state_of(trained.checkpoints.at(end), bench.model()), 16);
  EXPECT_DOUBLE_EQ(*trained.outcome.test_accuracy, static_cast<double>(expected.correct) / 400);
  EXPECT_NEAR(*trained.outcome.test_loss, expected.loss_sum / 400, 1e-6);
}

}  // namespace masked_tokens_test
}  // namespace hetpipe
