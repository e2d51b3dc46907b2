// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/own/stream.h"

// Embeddings of tokens and positions as kernels/reference/embedding.h defines them. For T float,
// Bf16, Fp16; tokens, weights and their gradients are float. A token outside [0, vocabulary), or a
// NaN, sets *outside to 1 (it is never set to 0), embeds as NaNs, so that a run ends as a numerical
// failure instead of learning from nothing, and has no gradient.
namespace hetpipe::cuda {

struct EmbeddingSizes {
  std::int64_t rows = 0;
  std::int64_t vocabulary = 0;
  std::int64_t features = 0;
};

// y (rows, features) = the tokens' rows of weight (vocabulary, features). Moves the bytes of y
// once, and 4 for each element of y.
template <class T>
void embedding_forward(const EmbeddingSizes& s, const float* tokens, const float* weight, T* y,
                       std::int32_t* outside, On on);

std::size_t embedding_scratch_bytes(const EmbeddingSizes& s);

// dweight of every token, zeros where it does not occur: the sum of dy over its rows, in their
// order. One thread sums all rows of a token for its features, so one token in every row is the
// slowest case. Moves the bytes of dy and dweight once, and those of rows_by_token.
template <class T>
void embedding_weight_gradient(const EmbeddingSizes& s, const float* tokens, const T* dy,
                               float* dweight, std::int32_t* outside, void* scratch, On on);

// y (batch, count) = x + weight (count), count = T*F; y may be x. Moves the bytes of x and y once.
template <class T>
void position_forward(std::int64_t batch, std::int64_t count, const T* x, const float* weight, T* y,
                      On on);

template <class T>
std::size_t position_scratch_bytes(std::int64_t batch, std::int64_t count);

// dweight (weights) with weights >= count: the sum of dy (batch, count) over the batch, zeros
// beyond. Moves the bytes of dy and dweight once.
template <class T>
void position_weight_gradient(std::int64_t batch, std::int64_t count, std::int64_t weights,
                              const T* dy, float* dweight, void* scratch, On on);

}  // namespace hetpipe::cuda
