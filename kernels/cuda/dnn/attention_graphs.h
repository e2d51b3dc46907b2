// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "kernels/cuda/dnn/graph.h"

// Scaled dot-product attention as graphs that cuDNN's fused engines know (flash attention: the
// (T, T) scores never reach memory; compute capability 8.0 and later, bf16 or fp16).
//
//   forward:   S = mask(scale * Q Kᵀ);  statistics = max S + log sum e^(S - max);  O = softmax(S) V
//   backward:  P = e^(mask(scale * Q Kᵀ) - statistics);  dV = Pᵀ dO
//              dS = scale * P * (dO Vᵀ - sum(dO * O));    dK = dSᵀ Q;  dQ = dS K
//
// Queries, keys and values lie packed in a row of 3F numbers, heads are taken out of it by steps.
namespace hetpipe::cuda {

struct AttentionSizes {
  std::int64_t batch = 0;
  std::int64_t tokens = 0;
  std::int64_t features = 0;  // F, of the output
  std::int64_t heads = 1;
  bool causal = true;
  cudnnDataType_t type = CUDNN_DATA_BFLOAT16;

  std::int64_t width() const { return features / heads; }
};

// Memories: q, k, v (inside x (N, T, 3F)), o (N, T, F), statistics fp32 (N, heads, T).
std::shared_ptr<const Graph> attention_forward_graph(const AttentionSizes& sizes);

// Memories: q, k, v, o, statistics, do, dq, dk, dv (inside dx (N, T, 3F)), sums fp32 (N, heads, T),
// and, unless deterministic, dq_sums fp32 (N, heads, T, F/heads), to which several blocks add in
// whatever order they finish.
std::shared_ptr<const Graph> attention_backward_graph(const AttentionSizes& sizes,
                                                      bool deterministic);

}  // namespace hetpipe::cuda
