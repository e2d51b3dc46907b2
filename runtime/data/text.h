// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/data/dataset.h"

// Language modelling by the character: a file's bytes in windows of T, each byte labelled with the
// one that follows it, or with itself where some are masked.
namespace hetpipe {

inline constexpr int kTextTokens = 64;           // T by default
inline constexpr int kMostTextTokens = 1 << 16;  // T at most

// What a model of a text learns: each token's label is the token that follows, or is the token
// itself, and some are hidden (runtime/data/masking.h).
enum class TextTask { next_token, masked_tokens };

bool is_text(const std::string& spec);  // begins with "text:"

// spec: "text:FILE" or "text:FILE,T=64". The vocabulary is the file's distinct bytes in their
// order: a byte's token is its place among them. The last tenth of the file (rounded up) is the
// test split; window i of a split begins at its byte i*T, and what is too short for T bytes and a
// label of the last is left out. For masked tokens there is one more token, the last, which hides
// others; windows are the same. UserError where the spec is wrong, the file is missing, holds
// fewer than two distinct bytes or is too short for a window in each split.
Dataset load_text_dataset(const std::string& spec, Split split, Parts parts,
                          TextTask task = TextTask::next_token);

}  // namespace hetpipe
