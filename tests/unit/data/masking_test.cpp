// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/masking.h"

#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "base/masked_tokens.h"
#include "runtime/data/prefetch.h"
#include "tests/end-to-end/serial_masking.h"

namespace hetpipe {
namespace masking_test {

constexpr int kTokens = 40;
constexpr int kMask = 29;  // of classes 0..29
constexpr int kChosen = 6;

// Sample i: tokens i, i + 1, ... modulo the mask.
Dataset counting(int size) {
  Dataset data;
  data.tokens = data.labels_per_sample = kTokens;
  data.classes = kMask + 1;
  data.mask_token = kMask;
  data.size = size;
  for (int i = 0; i < size; ++i) {
    for (int t = 0; t < kTokens; ++t) {
      data.labels.push_back((i + t) % kMask);
      data.values.push_back(static_cast<float>((i + t) % kMask));
    }
  }
  return data;
}

struct Sample {
  std::vector<float> tokens;
  std::vector<std::int32_t> labels;
  bool operator==(const Sample&) const = default;
};

Sample masked(std::uint64_t seed, SampleKey key, Sample sample) {
  mask_sample(seed, key, kMask, sample.tokens, sample.labels);
  return sample;
}

Sample of_token(int token) {
  return {std::vector<float>(kTokens, static_cast<float>(token)),
          std::vector<std::int32_t>(kTokens, token)};
}

TEST(Masking, FifteenOfAHundredAreChosen) {
  EXPECT_EQ(chosen_tokens(1), 1);
  EXPECT_EQ(chosen_tokens(3), 1);
  EXPECT_EQ(chosen_tokens(10), 2);  // 1.5
  EXPECT_EQ(chosen_tokens(64), 10);
  EXPECT_EQ(chosen_tokens(512), 77);
  EXPECT_EQ(chosen_tokens(kTokens), kChosen);
}

TEST(Masking, IsAsTheDefinitionSays) {
  for (const int count : {1, 2, 7, 40, 64}) {
    for (std::int64_t i = 0; i < 50; ++i) {
      std::vector<float> tokens(static_cast<std::size_t>(count)), expected;
      std::iota(tokens.begin(), tokens.end(), 0.0f);
      std::vector<std::int32_t> labels(tokens.begin(), tokens.end());
      expected = tokens;
      std::vector<std::int32_t> expected_labels = labels;
      const SampleKey key{i % 3, 1000 * i};
      mask_sample(11, key, 100, tokens, labels);
      mask_serially(11, key, 100, expected, expected_labels);
      EXPECT_EQ(tokens, expected) << count << " tokens, sample " << i;
      EXPECT_EQ(labels, expected_labels) << count << " tokens, sample " << i;
    }
  }
}

// Of all that are chosen 80 % are the mask, 10 % any token, 10 % as they were; every place and
// token comes as often. Bounds are five standard deviations.
TEST(Masking, SharesAreBerts) {
  constexpr int kSamples = 4000;
  const auto near = [](int count, double share, int of) {
    const double n = of;
    EXPECT_NEAR(count / n, share, 5 * std::sqrt(share * (1 - share) / n));
  };
  int hidden = 0, replaced = 0;
  std::vector<int> at(kTokens), became(kMask);
  for (int i = 0; i < kSamples; ++i) {
    const Sample sample = masked(3, {0, i}, of_token(0));
    int chosen = 0;
    for (std::size_t t = 0; t < kTokens; ++t) {
      if (sample.labels[t] == kNoLabel) {
        EXPECT_EQ(sample.tokens[t], 0) << "a token that was not chosen changed";
        continue;
      }
      ++chosen;
      ++at[t];
      EXPECT_EQ(sample.labels[t], 0);
      if (sample.tokens[t] == kMask) {
        ++hidden;
      } else if (sample.tokens[t] != 0) {
        ++replaced;
        ++became[static_cast<std::size_t>(sample.tokens[t])];
      }
    }
    EXPECT_EQ(chosen, kChosen);
  }
  const int all = kSamples * kChosen;
  near(hidden, 0.8, all);
  near(replaced, 0.1 * (kMask - 1) / kMask, all);  // any token may be the same one
  for (const int count : at) near(count, 0.15, kSamples);
  for (std::size_t token = 1; token < became.size(); ++token) near(became[token], 0.1 / kMask, all);
}

// What the model sees where a token was hidden or replaced says nothing of that token; and which
// tokens are chosen depends on none.
TEST(Masking, InputsDoNotTellTheLabels) {
  int hidden = 0, kept = 0;
  for (int i = 0; i < 200; ++i) {
    const Sample one = masked(5, {1, i}, of_token(4));
    const Sample other = masked(5, {1, i}, of_token(17));
    for (std::size_t t = 0; t < kTokens; ++t) {
      ASSERT_EQ(one.labels[t] == kNoLabel, other.labels[t] == kNoLabel);
      if (one.labels[t] == kNoLabel) continue;
      // Either the same for both labels, or one of the tenth that stay as they are.
      if (one.tokens[t] == other.tokens[t]) {
        ++hidden;
      } else {
        EXPECT_EQ(one.tokens[t], 4);
        EXPECT_EQ(other.tokens[t], 17);
        ++kept;
      }
    }
  }
  EXPECT_NEAR(kept / static_cast<double>(hidden + kept), 0.1, 0.05);
}

TEST(Masking, FollowsSeedEpochAndSample) {
  const Sample any = masked(5, {1, 7}, of_token(4));
  EXPECT_EQ(masked(5, {1, 7}, of_token(4)), any);
  EXPECT_NE(masked(6, {1, 7}, of_token(4)), any);
  EXPECT_NE(masked(5, {2, 7}, of_token(4)), any);
  EXPECT_NE(masked(5, {1, 8}, of_token(4)), any);
}

// First stages hold tokens, last stages labels: they agree, whoever computes which samples.
TEST(Masking, IsTheSameForEveryPartAndShare) {
  const Dataset data = counting(30);
  Dataset images = data, labels = data;
  images.labels.clear();
  labels.values.clear();
  const Sampler sampler(9, 30, {12}, 0, 90);
  for (Minibatch p = 0; p < sampler.count(0); ++p) {
    const std::vector<SampleSpan> all{{0, 12}}, split{{0, 5}, {5, 7}, {7, 12}};
    const Batch whole = assemble_batch(data, sampler, 0, p, all);
    ASSERT_EQ(whole.images.values(), 12u * kTokens);
    ASSERT_EQ(whole.labels.size(), 12u * kTokens);
    EXPECT_EQ(std::ranges::count_if(whole.labels, [](int label) { return label != kNoLabel; }),
              12 * kChosen);
    const auto wholes_tokens = [&](const Dataset& of) {
      const Samples tokens = assemble_batch(of, sampler, 0, p, split).images;
      return std::ranges::equal(tokens.as<float>(), whole.images.as<float>());
    };
    EXPECT_TRUE(wholes_tokens(data));
    EXPECT_TRUE(wholes_tokens(images));
    EXPECT_EQ(assemble_batch(labels, sampler, 0, p, split).labels, whole.labels);
    const std::vector<SampleSpan> last{{7, 12}};
    const Batch part = assemble_batch(data, sampler, 0, p, last);
    EXPECT_TRUE(
        std::ranges::equal(part.images.as<float>(), whole.images.as<float>().last(5u * kTokens)));
    EXPECT_TRUE(std::ranges::equal(part.labels, std::span(whole.labels).last(5u * kTokens)));
  }
}

}  // namespace masking_test
}  // namespace hetpipe
