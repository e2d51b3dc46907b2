// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/loss.h"
#include "kernels/reference/lstm.h"

// The sizes that the loops of a layer take, from its spec and the shape of its input.
namespace hetpipe::reference {

inline LinearSizes sizes_of(const Linear& l, const Shape& in) {
  const std::int64_t features = in[in.rank() - 1];
  return {in.elements() / features, features, l.output_features, l.transposed};
}
inline AttentionSizes sizes_of(const SelfAttention& a, const Shape& in) {
  return {in[0], in[1], in[2] / 3, a.heads, a.causal};
}
inline LstmSizes sizes_of(const Lstm& l, const Shape& in) {
  return {in[0], in[1], in[2], l.hidden};
}
inline LossSizes sizes_of(const SoftmaxCrossEntropy&, const Shape& in) {
  return {in[0], in.rank() == 3 ? in[1] : 1, in[in.rank() - 1]};
}

}  // namespace hetpipe::reference
