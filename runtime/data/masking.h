// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "base/sample.h"

// What masked language modelling hides of a sample and asks for: a function of (seed, epoch,
// sample), so that it is the same under every cut, share, micro-batch and resume.
namespace hetpipe {

// Evaluations hide the same tokens whatever the seed and whenever they run: their numbers compare.
inline constexpr std::uint64_t kEvaluationMaskingSeed = 0;

// Chooses chosen_tokens(T) of T tokens. `tokens` (may be empty) comes in as it was read: of the
// chosen ones 80 % become `mask_token`, 10 % any of [0, mask_token), 10 % stay. `labels` (may be
// empty) comes in as the tokens themselves; where none was chosen it becomes kNoLabel.
//
// With key = random_key({seed, hash_text("masked tokens"), epoch, index}) the j-th chosen position
// is permuted(key, T, j). It becomes mask_token where random_uniform(key, 2j) < 0.8, and token
// floor(random_uniform(key, 2j + 1) * mask_token) where that is in [0.8, 0.9).
void mask_sample(std::uint64_t seed, const SampleKey& sample, int mask_token,
                 std::span<float> tokens, std::span<std::int32_t> labels);
void mask_sample(std::uint64_t seed, const SampleKey& sample, int mask_token,
                 std::span<std::uint16_t> tokens, std::span<std::int32_t> labels);

}  // namespace hetpipe
