// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace hetpipe {

// How the next token is drawn from the logits of all.
struct Sampling {
  bool greedy = false;         // the first largest logit
  double temperature = 1;      // divides the logits
  std::optional<int> top_k{};  // only so many most probable tokens (Fan et al. 2018)
  // Only the most probable tokens whose probabilities first reach this sum (Holtzman et al., "The
  // curious case of neural text degeneration", 2020); of those that top_k leaves.
  std::optional<double> top_p{};
  std::uint64_t seed = 1;
};

// Token number `place` of a generation: the same for the same seed, logits and place.
int next_token(std::span<const float> logits, const Sampling& sampling, std::uint64_t place);

}  // namespace hetpipe
