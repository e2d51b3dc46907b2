// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "runtime/data/dataset.h"

// Language modelling by the character: a file's bytes in windows of T, each byte labelled with the
// one that follows it.
namespace hetpipe {

inline constexpr int kTextTokens = 64;           // T by default
inline constexpr int kMostTextTokens = 1 << 16;  // T at most

bool is_text(const std::string& spec);  // begins with "text:"

// spec: "text:FILE" or "text:FILE,T=64". The vocabulary is the file's distinct bytes in their
// order: a byte's token is its place among them. The last tenth of the file (rounded up) is the
// test split; window i of a split begins at its byte i*T, and what is too short for T bytes and a
// label of the last is left out. UserError where the spec is wrong, the file is missing, holds
// fewer than two distinct bytes or is too short for a window in each split.
Dataset load_text_dataset(const std::string& spec, Split split, Parts parts);

}  // namespace hetpipe
