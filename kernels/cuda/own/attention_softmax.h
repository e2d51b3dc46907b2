// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// The softmax of attention between its two products, for cards without a fused attention: scores
// (N, heads, T, T) become probabilities, as kernels/reference/attention.h defines them. The scores
// S are float or of the probabilities' type T: float, Bf16, Fp16. Rows of up to 8192 tokens, in
// packs of 16 bytes, stay in registers between their sums and their result.
namespace hetpipe::cuda {

struct AttentionRows {
  std::int64_t rows = 0;  // N * heads * T
  std::int64_t tokens = 0;
  float scale = 1;  // of the scores: 1/sqrt(width of a head)
  bool causal = true;
};

// Row t of P is the softmax of scale*scores over what token t sees, 0 beyond, whatever the scores
// are there. P may be the scores where both are of one type. Moves the bytes of P once and of the
// scores (half of them where causal).
template <class S, class T>
void attention_softmax_forward(const AttentionRows& s, const S* scores, T* probabilities, On on);

// The gradient of the products q·kᵀ: dS = P(dP - sum_j P dP) * scale, 0 beyond what a token sees,
// whatever dP is there. dS may be dP where both are of one type. Moves the bytes of dS once and of
// P and dP (half of them where causal).
template <class S, class T>
void attention_softmax_backward(const AttentionRows& s, const T* probabilities,
                                const S* dprobabilities, T* dscores, On on);

}  // namespace hetpipe::cuda
