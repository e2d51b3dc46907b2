// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/own/simt.h"

// The rows of each token, in their order: token v has rows[begin[v] .. begin[v + 1]), as
// reference::rows_by_token finds them. A stable radix sort without atomics, so that the order is
// the same in every run.
namespace hetpipe::cuda {

// A token comes as a float: its number, or -1 where it is outside [0, vocabulary) or a NaN.
HETPIPE_DEVICE std::int64_t token_of(float id, std::int64_t vocabulary) {
  return id >= 0 && id < static_cast<float>(vocabulary) ? static_cast<std::int64_t>(id) : -1;
}

struct TokenRows {
  const std::int32_t* begin = nullptr;  // (vocabulary + 1)
  const std::int32_t* rows = nullptr;   // those of tokens outside stand behind the last
};

std::size_t token_rows_bytes(std::int64_t rows, std::int64_t vocabulary);

// tokens (rows), as floats; a token outside [0, vocabulary), or a NaN, belongs to none and sets
// *outside to 1. The result lies in `memory`. Moves about 40 bytes per row for a vocabulary of up
// to 65,535 and 60 above, and 4 per token of the vocabulary.
TokenRows rows_by_token(std::int64_t rows, std::int64_t vocabulary, const float* tokens,
                        std::int32_t* outside, void* memory, On on);

}  // namespace hetpipe::cuda
