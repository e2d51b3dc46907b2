// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/dnn/attention_graphs.h"

#include <cmath>
#include <limits>

namespace hetpipe::cuda {
namespace {

using Tensor = Graph::Tensor;

// What several steps of one graph share.
struct Builder {
  Graph& graph;
  const AttentionSizes& s;

  // (N, heads, T, d) of one of the three, or of the output.
  Layout heads_of(std::int64_t row) const {
    return {s.type, {s.batch, s.heads, s.tokens, s.width()}, {s.tokens * row, s.width(), row, 1}};
  }
  Layout in_packed() const { return heads_of(3 * s.features); }
  Layout in_output() const { return heads_of(s.features); }
  static Layout transposed(Layout layout) {
    std::swap(layout.extents[2], layout.extents[3]);
    std::swap(layout.steps[2], layout.steps[3]);
    return layout;
  }
  Layout scores(cudnnDataType_t type) const {
    return packed(type, {s.batch, s.heads, s.tokens, s.tokens});
  }
  Layout per_row() const { return packed(CUDNN_DATA_FLOAT, {s.batch, s.heads, s.tokens, 1}); }

  Tensor fp32_scores() { return graph.between(scores(CUDNN_DATA_FLOAT)); }
  Tensor pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs) {
    const Tensor y = fp32_scores();
    graph.pointwise(mode, inputs, y);
    return y;
  }
  Tensor row_wise(cudnnPointwiseMode_t mode, std::initializer_list<Tensor> inputs) {
    const Tensor y = graph.between(per_row());
    graph.pointwise(mode, inputs, y);
    return y;
  }

  // mask(scale * Q Kᵀ)
  Tensor masked_scores(Tensor q, Tensor kt, Tensor scale) {
    const Tensor products = fp32_scores();
    graph.matrix_product(q, kt, products);
    const Tensor scaled = pointwise(CUDNN_POINTWISE_MUL, {products, scale});
    if (!s.causal) return scaled;
    const Tensor row = graph.between(scores(CUDNN_DATA_INT32));
    const Tensor column = graph.between(scores(CUDNN_DATA_INT32));
    graph.index_along(2, scaled, row);
    graph.index_along(3, scaled, column);
    const Tensor seen = graph.between(scores(CUDNN_DATA_BOOLEAN));
    graph.pointwise(CUDNN_POINTWISE_CMP_GE, {row, column}, seen);
    return pointwise(CUDNN_POINTWISE_BINARY_SELECT, {scaled, graph.constant(hidden()), seen});
  }

 private:
  // Engines before 9.10 want the lowest number in infinity's place.
  static float hidden() {
    return cudnnGetVersion() < 91000 ? std::numeric_limits<float>::lowest()
                                     : -std::numeric_limits<float>::infinity();
  }
};

float scale_of(const AttentionSizes& s) {
  return static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.width())));
}

}  // namespace

std::shared_ptr<const Graph> attention_forward_graph(const AttentionSizes& s) {
  auto graph = std::make_shared<Graph>("attention");
  Builder b{*graph, s};
  const Tensor q = graph->memory(b.in_packed());
  const Tensor kt = graph->memory(Builder::transposed(b.in_packed()));
  const Tensor v = graph->memory(b.in_packed());
  const Tensor o = graph->memory(b.in_output());
  const Tensor statistics = graph->memory(b.per_row());

  const Tensor scores = b.masked_scores(q, kt, graph->constant(scale_of(s)));
  const Tensor largest = graph->between(b.per_row());
  graph->reduce(CUDNN_REDUCE_TENSOR_MAX, scores, largest);
  const Tensor below = b.pointwise(CUDNN_POINTWISE_SUB, {scores, largest});
  const Tensor powers = b.pointwise(CUDNN_POINTWISE_EXP, {below});
  const Tensor sum = graph->between(b.per_row());
  graph->reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  graph->pointwise(CUDNN_POINTWISE_ADD, {largest, b.row_wise(CUDNN_POINTWISE_LOG, {sum})},
                   statistics);
  const Tensor softmax = graph->between(b.scores(s.type));
  graph->pointwise(CUDNN_POINTWISE_DIV, {powers, sum}, softmax);
  graph->matrix_product(softmax, v, o);
  return graph;
}

std::shared_ptr<const Graph> attention_backward_graph(const AttentionSizes& s, bool deterministic) {
  auto graph = std::make_shared<Graph>("attention backward");
  Builder b{*graph, s};
  const Tensor q = graph->memory(b.in_packed());
  const Tensor kt = graph->memory(Builder::transposed(b.in_packed()));
  const Tensor vt = graph->memory(Builder::transposed(b.in_packed()));
  const Tensor o = graph->memory(b.in_output());
  const Tensor statistics = graph->memory(b.per_row());
  const Tensor dout = graph->memory(b.in_output());
  const Tensor dq = graph->memory(b.in_packed());
  const Tensor dk = graph->memory(b.in_packed());
  const Tensor dv = graph->memory(b.in_packed());
  const Tensor sums = graph->memory(b.per_row());
  const Tensor scale = graph->constant(scale_of(s));

  // sum(dO * O) over a row's columns. The engines look for a product with one behind it.
  const Layout rows = packed(CUDNN_DATA_FLOAT, {s.batch, s.heads, s.tokens, s.width()});
  const Tensor products = graph->between(rows);
  graph->pointwise(CUDNN_POINTWISE_MUL, {dout, o}, products);
  const Tensor row_sums = graph->between(b.per_row());
  graph->reduce(CUDNN_REDUCE_TENSOR_ADD, products, row_sums);
  graph->pointwise(CUDNN_POINTWISE_MUL, {row_sums, graph->constant(1.0f)}, sums);

  // P again, and dV = Pᵀ dO
  const Tensor scores = b.masked_scores(q, kt, scale);
  const Tensor p =
      b.pointwise(CUDNN_POINTWISE_EXP, {b.pointwise(CUDNN_POINTWISE_SUB, {scores, statistics})});
  const Tensor pt = graph->between(Builder::transposed(b.scores(s.type)));
  graph->reshape(p, pt);
  graph->matrix_product(pt, dout, dv);

  // dS, and dK = dSᵀ Q
  const Tensor dp = b.fp32_scores();
  graph->matrix_product(dout, vt, dp);
  const Tensor centred = b.pointwise(CUDNN_POINTWISE_SUB, {dp, sums});
  const Tensor times_p = b.pointwise(CUDNN_POINTWISE_MUL, {centred, p});
  const Tensor ds = graph->between(b.scores(s.type));
  graph->pointwise(CUDNN_POINTWISE_MUL, {times_p, scale}, ds);
  const Tensor dst = graph->between(Builder::transposed(b.scores(s.type)));
  graph->reshape(ds, dst);
  graph->matrix_product(dst, q, dk);

  // dQ = dS K
  const Tensor k = graph->between(b.in_packed());
  graph->reshape(kt, k);
  if (deterministic) {
    graph->matrix_product(ds, k, dq);
  } else {
    const Tensor dq_sums = graph->memory(rows);
    graph->matrix_product(ds, k, dq_sums);
    graph->pointwise(CUDNN_POINTWISE_IDENTITY, {dq_sums}, dq);
  }
  return graph;
}

}  // namespace hetpipe::cuda
