// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// Masked language modelling (Devlin et al., "BERT", 2018, section 3.1): of a sample's tokens some
// are chosen, hidden from the model, and predicted.
namespace hetpipe {

// How many of a sample's tokens are chosen: 15 %, rounded, at least one. A fixed number of every
// sample, as in the paper's own program, so that the mean over a sample's chosen tokens, averaged
// over samples, is the mean over all chosen tokens, however a minibatch is split.
constexpr int chosen_tokens(std::int64_t tokens) {
  const std::int64_t rounded = (15 * tokens + 50) / 100;
  return static_cast<int>(rounded > 0 ? rounded : 1);
}

// The label of a token that is not chosen: nothing is predicted there.
inline constexpr std::int32_t kNoLabel = -1;

}  // namespace hetpipe
