// SPDX-License-Identifier: Apache-2.0
#include "launch/generate/sampling.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

// Drawn tokens against the probabilities that they were drawn with.
namespace hetpipe {
namespace sampling_test {

constexpr int kDraws = 20000;
const std::vector<float> kLogits{1.0f, 3.0f, -2.0f, 2.0f, 3.0f};

std::vector<double> frequencies(const Sampling& sampling) {
  std::vector<double> found(kLogits.size());
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    found.at(static_cast<std::size_t>(next_token(kLogits, sampling, i))) += 1;
  }
  for (double& f : found) f /= kDraws;
  return found;
}

// Five standard deviations of a frequency of so many draws.
void expect_near(const std::vector<double>& found, const std::vector<double>& weights) {
  double sum = 0;
  for (const double w : weights) sum += w;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    const double p = weights[c] / sum;
    // 0 where the token is not to be drawn at all.
    EXPECT_NEAR(found[c], p, 5 * std::sqrt(p * (1 - p) / kDraws)) << "token " << c;
  }
}

TEST(Sampling, FollowsTheSoftmax) {
  expect_near(frequencies({}),
              {std::exp(1.0), std::exp(3.0), std::exp(-2.0), std::exp(2.0), std::exp(3.0)});
}

TEST(Sampling, Temperature) {
  expect_near(frequencies({.temperature = 2}),
              {std::exp(0.5), std::exp(1.5), std::exp(-1.0), std::exp(1.0), std::exp(1.5)});
  const std::vector<double> cold = frequencies({.temperature = 0.01});
  EXPECT_EQ(cold[0] + cold[2] + cold[3], 0);
}

TEST(Sampling, TopK) {
  expect_near(frequencies({.top_k = 3}), {0, std::exp(3.0), 0, std::exp(2.0), std::exp(3.0)});
  EXPECT_DOUBLE_EQ(frequencies({.top_k = 1})[1], 1);  // of two equal ones the first
  EXPECT_EQ(frequencies({.top_k = 9}), frequencies({}));
}

// Probabilities in order: 0.3985 (1), 0.3985 (4), 0.1466 (3), 0.0539 (0), 0.0027 (2).
TEST(Sampling, TopP) {
  expect_near(frequencies({.top_p = 0.9}), {0, std::exp(3.0), 0, std::exp(2.0), std::exp(3.0)});
  expect_near(frequencies({.top_p = 0.79}), {0, 1, 0, 0, 1});
  EXPECT_NEAR(frequencies({.top_p = 0.01})[1], 1, 1e-9);
  // Of the two that are left, half is one.
  EXPECT_NEAR(frequencies({.top_k = 2, .top_p = 0.5})[1], 1, 1e-9);
}

TEST(Sampling, Greedy) {
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(next_token(kLogits, {.greedy = true}, i), 1);
}

TEST(Sampling, TheSeedSaysItAll) {
  int differ = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(next_token(kLogits, {.seed = 4}, i), next_token(kLogits, {.seed = 4}, i));
    differ += next_token(kLogits, {.seed = 4}, i) != next_token(kLogits, {.seed = 5}, i) ? 1 : 0;
  }
  EXPECT_GT(differ, 20);
}

}  // namespace sampling_test
}  // namespace hetpipe
