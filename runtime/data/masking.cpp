// SPDX-License-Identifier: Apache-2.0
#include "runtime/data/masking.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/hash.h"
#include "base/masked_tokens.h"
#include "base/random.h"

namespace hetpipe {
namespace {

constexpr float kMasked = 0.8f;    // of the chosen tokens
constexpr float kReplaced = 0.9f;  // these, and those that any token replaces

template <class Token>
void mask(std::uint64_t seed, const SampleKey& sample, int mask_token, std::span<Token> tokens,
          std::span<std::int32_t> labels) {
  const auto count = static_cast<std::int64_t>(std::max(tokens.size(), labels.size()));
  const std::uint64_t key =
      random_key({seed, hash_text("masked tokens"), static_cast<std::uint64_t>(sample.epoch),
                  static_cast<std::uint64_t>(sample.index)});
  std::vector<bool> chosen(static_cast<std::size_t>(count));
  for (int j = 0; j < chosen_tokens(count); ++j) {
    const auto position = static_cast<std::size_t>(permuted(key, count, j));
    chosen[position] = true;
    if (tokens.empty()) continue;
    const std::uint64_t draw = 2 * static_cast<std::uint64_t>(j);
    const float what = random_uniform(key, draw);
    if (what < kMasked) {
      tokens[position] = static_cast<Token>(mask_token);
    } else if (what < kReplaced) {
      tokens[position] = static_cast<Token>(
          std::floor(random_uniform(key, draw + 1) * static_cast<float>(mask_token)));
    }
  }
  for (std::size_t t = 0; t < labels.size(); ++t) {
    if (!chosen[t]) labels[t] = kNoLabel;
  }
}

}  // namespace

void mask_sample(std::uint64_t seed, const SampleKey& sample, int mask_token,
                 std::span<float> tokens, std::span<std::int32_t> labels) {
  mask(seed, sample, mask_token, tokens, labels);
}
void mask_sample(std::uint64_t seed, const SampleKey& sample, int mask_token,
                 std::span<std::uint16_t> tokens, std::span<std::int32_t> labels) {
  mask(seed, sample, mask_token, tokens, labels);
}

}  // namespace hetpipe
