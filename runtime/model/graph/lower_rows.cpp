// SPDX-License-Identifier: Apache-2.0
// Operators on rows, and those that draw.
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/lower_parts.h"

namespace hetpipe::graph {
namespace {

struct Rows {
  Dense dense;
  std::vector<int> inner;  // the last dimension
  Shape view;
};
Rows rows_of(Importer& importer, const Node& node, const Tensor& tensor) {
  Rows rows;
  const int last = tensor.rank() - 1;
  rows.inner = {last};
  rows.dense = importer.lay_out(node, tensor, rows.inner);
  const std::int64_t features = at(tensor.shape, last).number;
  rows.view = rows.dense.rows == 1 ? Shape{1, features} : Shape{1, rows.dense.rows, features};
  return rows;
}
void give_rows(Importer& importer, const Node& node, int layer, const Rows& rows) {
  const TensorShape& shape = node.shapes[0];
  importer.result(node,
                  importer.output(layer, rows.dense, rows.inner, {shape.back().number}, shape));
}

// Weights that are a part of a parameter (packed projections), or computed: a product.
void product_with_weight(Importer& importer, const Node& node) {
  Tensor weight = importer.input(node, "weight");
  permute(weight, {1, 0});
  const TensorShape& shape = node.shapes[0];
  Tensor x = importer.input(node, "input");
  if (x.rank() == 1) throw Unsupported("a vector");
  // Rows are a dimension without samples, which come first.
  std::vector<int> order, back(at(x.rank()));
  for (int d = 0; d < x.rank() - 1; ++d) {
    if (at(x.shape, d).samples) order.push_back(d);
  }
  for (int d = 0; d < x.rank(); ++d) {
    if (!at(x.shape, d).samples) order.push_back(d);
  }
  for (std::size_t i = 0; i < order.size(); ++i) back[at(order[i])] = static_cast<int>(i);
  permute(x, order);
  TensorShape arranged;
  for (const int d : order) arranged.push_back(at(shape, d));
  const bool one_row = x.rank() == 2;
  if (one_row) {
    insert_dimension(x, 1);
    arranged.insert(arranged.begin() + 1, Extent{});
  }
  Tensor value = matrix_product(importer, node, x, weight, arranged);
  if (one_row) remove_dimension(value, 1);
  permute(value, back);
  if (node.has_input("bias")) value = apply("add", {value, importer.input(node, "bias")}, shape);
  importer.result(node, value);
}

void linear(Importer& importer, const Node& node) {
  const State* const weight = importer.state_of(node.input("weight"));
  const bool own_bias = !node.has_input("bias") || importer.state_of(node.input("bias")) != nullptr;
  if (weight == nullptr || weight->kind != StateKind::parameter || !own_bias) {
    return product_with_weight(importer, node);
  }
  const Rows rows = rows_of(importer, node, importer.input(node, "input"));
  Linear l;
  l.output_features = static_cast<int>(weight_of(importer, node).shape[0]);
  l.transposed = true;  // (out, in)
  l.bias = node.has_input("bias");
  give_rows(importer, node,
            importer.add(node, l, {rows.dense}, {rows.view},
                         importer.parameters(node, {"weight", "bias"})),
            rows);
}

// self + mat1 mat2
void addmm(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  if (attributes.number("beta", 1) != 1 || attributes.number("alpha", 1) != 1) {
    throw Unsupported("factors of a sum of products");
  }
  const Rows rows = rows_of(importer, node, importer.input(node, "mat1"));
  const std::string weight = importer.parameter(node, "mat2");
  Linear l;
  l.output_features = static_cast<int>(importer.state_of(weight)->shape[1]);
  give_rows(
      importer, node,
      importer.add(node, l, {rows.dense}, {rows.view}, {weight, importer.parameter(node, "self")}),
      rows);
}

// Rows of a table by tokens that are data, or by constant ones, which is a view of the table.
void embedding(Importer& importer, const Node& node) {
  const Tensor tokens = importer.input(node, "indices");
  const TensorShape& shape = node.shapes[0];
  if (tokens.constant() && tokens.bare()) {
    Tensor table = importer.input(node, "weight");
    const Extent features = table.shape.back();
    const std::vector<std::int64_t> places = constant_places(tokens, table.shape[0].number);
    TensorShape without = tokens.shape;
    for (Extent& e : without) e.samples = false;
    without.push_back(features);
    if (!gather(table, 0, places) || !reshape(table, without)) {
      throw Unsupported("constant indices of such an order");
    }
    expand(table, shape);
    return importer.result(node, table);
  }
  const std::string weight = importer.parameter(node, "weight");
  const State& state = *importer.state_of(weight);
  std::vector<int> all(tokens.shape.size());
  std::iota(all.begin(), all.end(), 0);
  std::vector<int> inner;  // everything but the samples
  for (const int d : all) {
    if (!at(tokens.shape, d).samples) inner.push_back(d);
  }
  const Dense dense = importer.lay_out(node, tokens, inner);
  std::int64_t count = dense.rows;
  for (const int d : inner) count *= at(tokens.shape, d).number;
  Embedding e;
  e.vocabulary = static_cast<int>(state.shape[0]);
  e.features = static_cast<int>(state.shape[1]);
  const Attributes attributes = importer.attributes(node);
  e.padding = static_cast<int>(attributes.integer("padding_idx", -1));
  const int layer = importer.add(node, e, {dense}, {Shape{1, count}}, {weight});
  // (N, count, features): what was read, and the features innermost.
  std::vector<std::int64_t> extents;
  for (const int d : inner) extents.push_back(at(tokens.shape, d).number);
  inner.push_back(tokens.rank());
  extents.push_back(e.features);
  importer.result(node, importer.output(layer, dense, inner, extents, shape));
}

void drop(Importer& importer, const Node& node) {
  const Tensor self = importer.input(node, node.has_input("input") ? "input" : "self");
  const auto rate = static_cast<float>(importer.attributes(node).number("p", 0.5));
  if (rate == 0) return importer.result(node, self);
  const Dense dense = importer.lay_out(node, self, {});
  const int layer = node.op.starts_with("alpha")
                        ? importer.add(node, AlphaDropout{rate}, {dense}, {all_of_sample(dense)})
                        : importer.add(node, Dropout{rate}, {dense}, {all_of_sample(dense)});
  importer.result(node, importer.output(layer, dense, {}, {}, self.shape));
}

// Whole channels (dimension 1), or whole samples, at once.
void drop_together(Importer& importer, const Node& node) {
  const Tensor self = importer.input(node, node.has_input("input") ? "input" : "self");
  const auto rate = static_cast<float>(importer.attributes(node).number("p", 0.5));
  if (rate == 0) return importer.result(node, self);
  const bool channels = node.op == "feature_dropout";
  const std::vector<int> inner = channels ? std::vector<int>{1} : std::vector<int>{};
  const Dense dense = importer.lay_out(node, self, inner);
  const std::int64_t draws = channels ? self.shape[1].number : 1;
  const int layer = importer.add(node, Dropout{rate, static_cast<int>(draws)}, {dense},
                                 {Shape{1, dense.rows * (channels ? draws : 1)}});
  std::vector<std::int64_t> extents;
  if (channels) extents.push_back(draws);
  importer.result(node, importer.output(layer, dense, inner, extents, self.shape));
}

}  // namespace

std::vector<LoweringRow> row_lowerings() {
  return {{"linear", linear},
          {"addmm", addmm},
          {"embedding", embedding},
          {"dropout", drop},
          {"alpha_dropout", drop},
          {"feature_dropout", drop_together},
          {"stochastic_depth", drop_together}};
}

}  // namespace hetpipe::graph
