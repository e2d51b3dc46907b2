// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/stream.h"

// The softmax of attention between its products, as kernels/reference/algebra_attention.h defines
// it: with a mask that is added to the scores, causal, and with dropout. Scores and their gradients
// are float; what they become is of T: float, Bf16 or Fp16. Rows of up to 8192 keys, in packs of 16
// bytes, stay in registers between their sums and their result.
namespace hetpipe::cuda {

// What is added to the score of (head, query, key) of a sample: element offset + head * strides[0]
// + query * strides[1] + key * strides[2] + table[the same of table_strides], `by_sample` further
// for each sample. `values` is float where `floats`, else T.
struct ScoreMask {
  const void* values = nullptr;  // null: none
  bool floats = true;
  std::int64_t by_sample = 0;
  std::int64_t offset = 0;
  std::int64_t strides[3] = {};
  const std::int32_t* table = nullptr;  // null: none
  std::int64_t table_strides[3] = {};
};

// Rows (samples, heads, queries) of `keys` scores each.
struct ScoreRows {
  std::int64_t samples = 0, heads = 0, queries = 0, keys = 0;
  float scale = 1;  // of the scores
  bool causal = false;
  ScoreMask mask = {};
  // Dropout, as kernels/cuda/own/dropout.h draws it: element (head, query, key) of a sample, in
  // this order. sample_keys (samples) is device memory; null: none.
  const std::uint64_t* sample_keys = nullptr;
  float rate = 0;

  std::int64_t rows() const { return samples * heads * queries; }
};

// P = softmax(scale * scores + mask) over the keys that a query sees, 0 beyond; a query that sees
// none has zeros. With dropout, what is dropped of P has its sign bit set, and `dropped` is P /
// (1 - rate) where it is kept, else 0; else `dropped` is not written. Moves the bytes of the scores
// and the mask once, and those of P and `dropped`.
template <class T>
void masked_softmax_forward(const ScoreRows& s, const float* scores, T* probabilities, T* dropped,
                            On on);

// With dP the gradient of what the values were multiplied with, and M what dropout multiplied by:
// dS = P (M dP - sum P M dP), 0 beyond what a query sees; `dropped` as in the forward, from the
// signs. dS is the mask's gradient, and `scale` times dS that of the product of queries and keys.
template <class T>
void masked_softmax_backward(const ScoreRows& s, const T* probabilities,
                             const float* dprobabilities, T* dscores, T* dropped, On on);

}  // namespace hetpipe::cuda
