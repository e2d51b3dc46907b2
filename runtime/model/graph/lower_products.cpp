// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/index.h"
#include "runtime/model/graph/importer.h"

// Products of matrices, and attention.
namespace hetpipe::graph {
namespace {

// A tensor as (batch..., a, b) whose last two dimensions are single runs, or made so.
Tensor with_single_runs(Importer& importer, const Node& node, Tensor tensor,
                        std::initializer_list<int> dims) {
  if (!tensor.bare()) tensor = importer.materialize(node, tensor);
  const auto single = [&] {
    return std::all_of(dims.begin(), dims.end(), [&](int d) {
      Dimension& dimension = at(tensor.leaves[0].dimensions, d);
      merge_atoms(dimension);
      return dimension.size() <= 1 && (dimension.empty() || !dimension[0].samples);
    });
  };
  if (single() && tensor.leaves[0].table.empty()) return tensor;
  tensor = bare(importer.lay_out(node, tensor, std::vector<int>(dims)).leaf, tensor.shape);
  if (!single()) throw Unsupported("it mixes the samples of a batch");
  return tensor;
}

std::int64_t stride_of(const Leaf& leaf, int dim) {
  const Dimension& d = at(leaf.dimensions, dim);
  return d.empty() ? 0 : d[0].stride;
}

void product(Importer& importer, const Node& node) {
  const Tensor a = importer.input(node, node.has_input("batch1") ? "batch1"
                                        : node.has_input("self") ? "self"
                                                                 : "input");
  const Tensor b = importer.input(node, node.has_input("batch2") ? "batch2"
                                        : node.has_input("mat2") ? "mat2"
                                                                 : "other");
  if (a.rank() < 2 || b.rank() < 2) throw Unsupported("a product with a vector");
  const TensorShape& shape = node.shapes[0];
  Tensor value = matrix_product(importer, node, a, b, shape);
  if (node.op == "baddbmm") {
    const Attributes attributes = importer.attributes(node);
    if (attributes.number("alpha", 1) != 1)
      value = apply("mul", {value, number(attributes.number("alpha"))}, shape);
    Tensor added = importer.input(node, "self");
    if (attributes.number("beta", 1) != 1)
      added = apply("mul", {added, number(attributes.number("beta"))}, added.shape);
    value = apply("add", {added, value}, shape);
  }
  importer.result(node, value);
}

// "bhid,bhjd->bhij" of two tensors: letters of both and of the result are batches; of both alone,
// summed over; of one and of the result, rows or columns.
void einsum(Importer& importer, const Node& node) {
  const std::string equation = importer.attributes(node).text("equation", "");
  const std::vector<std::string>& names = node.inputs.at("tensors");
  std::string letters;
  for (const char c : equation) {
    if (c != ' ') letters += c;
  }
  const std::size_t comma = letters.find(','), arrow = letters.find("->");
  if (names.size() != 2 || comma == std::string::npos || arrow == std::string::npos ||
      letters.find('.') != std::string::npos) {
    throw Unsupported("einsum '" + equation + "'");
  }
  std::string a = letters.substr(0, comma), b = letters.substr(comma + 1, arrow - comma - 1),
              result = letters.substr(arrow + 2);
  const auto in = [](const std::string& word, char c) { return word.find(c) != std::string::npos; };
  std::string batch, rows, columns, inner;
  for (const char c : a) {
    if (in(b, c)) {
      (in(result, c) ? batch : inner) += c;
    } else if (in(result, c)) {
      rows += c;
    } else {
      throw Unsupported("einsum '" + equation + "' (a sum over one tensor)");
    }
  }
  for (const char c : b) {
    if (in(a, c)) continue;
    if (!in(result, c)) throw Unsupported("einsum '" + equation + "' (a sum over one tensor)");
    columns += c;
  }
  Tensor left = importer.value(names[0]), right = importer.value(names[1]);
  std::map<char, Extent> extents;
  for (std::size_t i = 0; i < a.size(); ++i) extents[a[i]] = left.shape[i];
  for (std::size_t i = 0; i < b.size(); ++i) extents[b[i]] = right.shape[i];
  // Samples of the first tensor alone are a batch that the second is the same for.
  for (const char c : a) {
    if (!extents[c].samples || !in(rows, c)) continue;
    rows.erase(rows.find(c), 1);
    batch.insert(batch.begin(), c);
    b.insert(b.begin(), c);
    insert_dimension(right, 0);
  }
  const auto arranged = [&](Tensor tensor, const std::string& from, const std::string& first,
                            const std::string& second) {
    std::vector<int> order;
    TensorShape shape;
    for (const char c : batch) shape.push_back(at(tensor.shape, static_cast<int>(from.find(c))));
    for (const char c : batch + first + second) order.push_back(static_cast<int>(from.find(c)));
    for (const std::string& word : {first, second}) {
      Extent all;
      for (const char c : word) {
        all.number *= extents[c].number;
        all.samples = all.samples || extents[c].samples;
      }
      shape.push_back(all);
    }
    permute(tensor, order);
    if (!reshape(tensor, shape)) {
      tensor = importer.in_shape_order(node, tensor);
      if (!reshape(tensor, shape)) throw Unsupported("it mixes the samples of a batch");
    }
    return tensor;
  };
  left = arranged(left, a, rows, inner);
  right = arranged(right, b, inner, columns);
  TensorShape shape;
  for (const char c : batch) shape.push_back(extents[c]);
  shape.push_back(left.shape[batch.size()]);
  shape.push_back(right.shape.back());
  Tensor value = matrix_product(importer, node, left, right, shape);
  const std::string made = batch + rows + columns;
  TensorShape wide;
  for (const char c : made) wide.push_back(extents[c]);
  if (!reshape(value, wide)) throw Unsupported("it mixes the samples of a batch");
  std::vector<int> order;
  for (const char c : result) order.push_back(static_cast<int>(made.find(c)));
  permute(value, order);
  importer.result(node, value);
}

// Heads of a view as parts (key-value heads, repetitions), of which the second are broadcast.
struct Heads {
  int count = 1;
  int distinct = 1;
  std::int64_t stride = 0;  // of the distinct ones
};
std::optional<Heads> heads_of(const Dimension& given) {
  Dimension dimension = given;
  merge_atoms(dimension);
  for (const Atom& atom : dimension) {
    if (atom.samples) return std::nullopt;
  }
  Heads heads;
  if (dimension.empty()) return heads;
  if (dimension.size() == 1) {
    heads.count = static_cast<int>(dimension[0].extent);
    heads.distinct = dimension[0].stride == 0 ? 1 : heads.count;
    heads.stride = dimension[0].stride;
    return heads;
  }
  if (dimension.size() == 2 && dimension[1].stride == 0) {
    heads.count = static_cast<int>(dimension[0].extent * dimension[1].extent);
    heads.distinct = static_cast<int>(dimension[0].extent);
    heads.stride = dimension[0].stride;
    return heads;
  }
  return std::nullopt;
}

// (N, heads, tokens, features) read through strides: the samples are dimension 0 alone.
struct View {
  Tensor tensor;
  Heads heads;
};
View view_of(Importer& importer, const Node& node, Tensor tensor) {
  if (tensor.rank() == 3) insert_dimension(tensor, 1);
  if (tensor.rank() != 4) throw Unsupported("attention over " + to_string(tensor.shape));
  if (!tensor.bare()) tensor = importer.materialize(node, tensor);
  const auto good = [&]() -> std::optional<Heads> {
    std::vector<Dimension>& d = tensor.leaves[0].dimensions;
    for (Dimension& dimension : d) merge_atoms(dimension);
    if (tensor.leaves[0].kind != Leaf::Kind::layer || !tensor.leaves[0].table.empty() ||
        d[0].size() != 1 || !d[0][0].samples || d[2].size() > 1 || d[3].size() > 1 ||
        (!d[3].empty() && d[3][0].stride != 1)) {
      return std::nullopt;
    }
    return heads_of(d[1]);
  };
  std::optional<Heads> heads = good();
  if (!heads) {
    tensor = bare(importer.lay_out(node, tensor, {2, 1, 3}).leaf, tensor.shape);
    heads = good();
    if (!heads) throw Unsupported("a batch that is more than the samples");
  }
  return {tensor, *heads};
}

// Added to the scores: 0 where a boolean mask lets through, -inf elsewhere.
Tensor added_mask(Importer& importer, const Node& node, const Tensor& mask) {
  const std::string& name = node.input("attn_mask");
  std::string type = "float32";
  for (const Node& other : importer.graph().nodes) {
    if (other.name == name) type = other.types[0];
  }
  const Safetensors* const constants = importer.graph().constants.get();
  if (constants != nullptr && constants->find(name) != nullptr) {
    type = constants->at(name).type == "BOOL" ? "bool" : "float32";
  }
  if (const State* const state = importer.state_of(name)) type = state->type;
  if (type != "bool") return mask;
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  return apply("where", {mask, number(0), number(kHidden)}, mask.shape);
}

// (k N, heads, ...), whose batch has parts beside the samples, as (N, k heads, ...): those become
// heads. Windows and patches lie so.
void fold_batch(Tensor& tensor) {
  const std::int64_t parts = tensor.shape[0].number;
  if (parts == 1) return;
  for (Leaf& leaf : tensor.leaves) {
    Dimension batch, heads;
    for (const Atom& atom : leaf.dimensions[0]) (atom.samples ? batch : heads).push_back(atom);
    // A broadcast of one of the two is one of its extent.
    if (heads.empty()) heads.push_back({parts, 0, 0, false});
    Dimension& own = leaf.dimensions[1];
    if (own.empty() && tensor.shape[1].number > 1) own.push_back({tensor.shape[1].number, 0});
    heads.insert(heads.end(), own.begin(), own.end());
    leaf.dimensions[0] = batch;
    own = heads;
    merge_atoms(own);
  }
  tensor.shape[1].number *= parts;
  tensor.shape[0].number = 1;
}

// And back, to this extent.
void unfold_batch(Tensor& tensor, const Extent& extent) {
  if (extent.number == 1) return;
  TensorShape apart = tensor.shape;
  apart[1].number /= extent.number;
  apart.insert(apart.begin() + 1, {extent.number, false});
  if (!reshape(tensor, apart)) throw Unsupported("a batch that is more than the samples");
  std::vector<Dimension>& dimensions = tensor.leaves[0].dimensions;
  dimensions[0].insert(dimensions[0].end(), dimensions[1].begin(), dimensions[1].end());
  dimensions.erase(dimensions.begin() + 1);
  tensor.shape.erase(tensor.shape.begin());
  tensor.shape[0] = extent;
}

// An input of attention, folded: its batch is the samples and then all else.
Tensor folded(Importer& importer, const Node& node, const char* argument) {
  Tensor tensor = importer.input(node, argument);
  if (tensor.rank() == 3) insert_dimension(tensor, 1);
  if (tensor.rank() < 4) throw Unsupported("attention over " + to_string(tensor.shape));
  if (tensor.rank() > 4) {  // all between the batch and the last two are heads
    if (!tensor.bare()) tensor = importer.materialize(node, tensor);
    TensorShape four{tensor.shape[0], {}, *(tensor.shape.end() - 2), tensor.shape.back()};
    for (std::size_t d = 1; d + 2 < tensor.shape.size(); ++d)
      four[1].number *= tensor.shape[d].number;
    if (!reshape(tensor, four)) {
      tensor = importer.in_shape_order(node, tensor);
      if (!reshape(tensor, four)) throw Unsupported("attention over " + to_string(tensor.shape));
    }
  }
  if (tensor.shape[0].number == 1) return tensor;
  if (!tensor.bare()) tensor = importer.materialize(node, tensor);
  Dimension batch = tensor.leaves[0].dimensions[0];
  merge_atoms(batch);
  if (batch.size() != 2 || !batch[0].samples) tensor = importer.in_shape_order(node, tensor);
  fold_batch(tensor);
  return tensor;
}

void attention(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Extent extent_of_batch = importer.input(node, "query").shape[0];
  const View q = view_of(importer, node, folded(importer, node, "query"));
  const View k = view_of(importer, node, folded(importer, node, "key"));
  const View v = view_of(importer, node, folded(importer, node, "value"));
  const auto extent = [](const View& view, int d) { return at(view.tensor.shape, d).number; };
  const auto stride = [](const View& view, int d) { return stride_of(view.tensor.leaves[0], d); };
  Attention a;
  a.heads = static_cast<int>(extent(q, 1));
  a.kv_heads = std::min(k.heads.distinct, a.heads);
  if (k.heads.distinct != v.heads.distinct) throw Unsupported("other heads of keys than of values");
  a.queries = extent(q, 2);
  a.keys = extent(k, 2);
  a.features = extent(q, 3);
  a.value_features = extent(v, 3);
  a.causal = attributes.flag("is_causal", false);
  a.scale = static_cast<float>(
      attributes.number("scale", 1 / std::sqrt(static_cast<double>(a.features))));
  a.dropout = static_cast<float>(attributes.number("dropout_p", 0));
  Importer::Operands operands;
  const auto operand = [&](const View& view) {
    return operands.add(importer, view.tensor.leaves[0],
                        {view.heads.stride, stride(view, 2), stride(view, 3)}, {});
  };
  if (q.heads.distinct != q.heads.count)
    throw Unsupported("queries that are the same for all heads");
  a.query = operand(q);
  a.key = operand(k);
  a.value = operand(v);
  if (node.has_input("attn_mask")) {
    Tensor mask = added_mask(importer, node, importer.input(node, "attn_mask"));
    if (mask.rank() > 4) throw Unsupported("a mask of " + to_string(mask.shape));
    while (mask.rank() < 4) insert_dimension(mask, 0);
    TensorShape all{q.tensor.shape[0], {a.heads, false}, {a.queries, false}, {a.keys, false}};
    if (extent_of_batch.number > 1) {
      if (!mask.leaves[0].table.empty()) mask = importer.in_shape_order(node, mask);
      expand(mask, {extent_of_batch,
                    {a.heads / extent_of_batch.number, false},
                    {a.queries, false},
                    {a.keys, false}});
      fold_batch(mask);
    }
    // In order where it is an expression: once, of what it varies along.
    if (!mask.bare()) {
      mask = mask.constant() ? evaluated(mask) : importer.in_shape_order(node, mask);
    }
    expand(mask, all);
    std::optional<std::vector<Loop>> loops = common_loops(mask.leaves, all);
    if (!loops) throw Unsupported("a mask that divides its extents in ways that do not fit");
    // Heads in several parts are looked up.
    const auto of_heads = std::count_if(loops->begin(), loops->end(), [](const Loop& loop) {
      return !loop.samples && loop.dimension == 1;
    });
    if (of_heads > 1 && mask.leaves[0].table.empty()) {
      std::vector<std::int32_t> places{0};
      for (const Loop& loop : *loops) {
        if (loop.samples || loop.dimension != 1) continue;
        std::vector<std::int32_t> finer;
        for (const std::int32_t place : places) {
          for (std::int64_t i = 0; i < loop.extent; ++i) {
            finer.push_back(place + static_cast<std::int32_t>(i * loop.strides[0]));
          }
        }
        places = std::move(finer);
      }
      mask.leaves[0].table = ConstantTable<std::int32_t>(places);
      mask.leaves[0].dimensions[1] = {{a.heads, 0, 1, false}};
      loops = common_loops(mask.leaves, all);
    }
    // One loop of each of heads, queries and keys, those of extent 1 too.
    std::vector<std::int64_t> of_three, tables_of_three;
    for (int d = 1; d < 4; ++d) {
      std::int64_t s = 0, t = 0;
      int parts = 0;
      for (const Loop& loop : *loops) {
        if (loop.samples || loop.dimension != d) continue;
        s = loop.strides[0];
        t = loop.table_strides[0];
        ++parts;
      }
      if (parts > 1) throw Unsupported("a mask that divides its extents");
      of_three.push_back(s);
      tables_of_three.push_back(t);
    }
    a.mask = operands.add(importer, mask.leaves[0], of_three, tables_of_three);
  }
  a.parameters = operands.parameters;
  a.constants = operands.constants;
  Leaf leaf;
  leaf.layer = importer.add(node, a, operands.inputs, operands.state);
  // (N, queries, heads, features)
  const auto part = [](std::int64_t places, std::int64_t step) {
    return places == 1 ? Dimension{} : Dimension{Atom{places, step, 0, false}};
  };
  leaf.dimensions = {{Atom{1, 0, 0, true}},
                     part(a.heads, a.value_features),
                     part(a.queries, a.heads * a.value_features),
                     part(a.value_features, 1)};
  Tensor value = bare(
      leaf, {q.tensor.shape[0], {a.heads, false}, {a.queries, false}, {a.value_features, false}});
  unfold_batch(value, extent_of_batch);
  if (node.shapes[0].size() == 3) remove_dimension(value, 1);
  if (node.shapes[0].size() > 4 && !reshape(value, node.shapes[0])) {
    throw Unsupported("attention to " + to_string(node.shapes[0]));
  }
  importer.result(node, value);
}

}  // namespace

Tensor matrix_product(Importer& importer, const Node& node, Tensor a, Tensor b,
                      const TensorShape& shape) {
  const int rank = static_cast<int>(shape.size());
  const auto widen = [&](Tensor& t) {
    while (t.rank() < rank) insert_dimension(t, 0);
  };
  // Rows by a parameter (in, out), or its transpose, are a linear layer.
  if (b.bare() && b.leaves[0].kind == Leaf::Kind::parameter && b.rank() == 2 &&
      b.leaves[0].offset == 0 && b.leaves[0].table.empty()) {
    const State* const weight = importer.state_of(b.leaves[0].name);
    const std::int64_t in = b.shape[0].number, out = b.shape[1].number;
    const bool plain = stride_of(b.leaves[0], 1) == 1 && weight->shape == std::vector{in, out};
    const bool transposed = stride_of(b.leaves[0], 0) == 1 && weight->shape == std::vector{out, in};
    if (plain || transposed) {
      const int last = a.rank() - 1;
      const Dense dense = importer.lay_out(node, a, {last});
      const Shape view = dense.rows == 1 ? Shape{1, in} : Shape{1, dense.rows, in};
      const int layer = importer.add(
          node,
          Linear{.output_features = static_cast<int>(out), .bias = false, .transposed = !plain},
          {dense}, {view}, {weight->name});
      return importer.output(layer, dense, {last}, {out}, shape);
    }
  }
  widen(a);
  widen(b);
  a = with_single_runs(importer, node, a, {rank - 2, rank - 1});
  b = with_single_runs(importer, node, b, {rank - 2, rank - 1});
  // The loops of the batch, which both are broadcast to.
  TensorShape batch = shape;
  at(batch, rank - 2) = at(batch, rank - 1) = Extent{};
  std::vector<Leaf> leaves{a.leaves[0], b.leaves[0]};
  for (Leaf& leaf : leaves) {
    at(leaf.dimensions, rank - 2).clear();
    at(leaf.dimensions, rank - 1).clear();
  }
  const std::optional<std::vector<Loop>> loops = common_loops(leaves, batch);
  if (!loops) throw Unsupported("batches that divide their extents in ways that do not fit");
  Product p;
  p.rows = at(shape, rank - 2).number;
  p.columns = at(shape, rank - 1).number;
  p.inner = at(a.shape, rank - 1).number;
  std::vector<std::int64_t> a_strides, b_strides, a_tables, b_tables;
  std::vector<Dimension> dimensions(shape.size());
  std::vector<std::pair<int, int>> places;
  for (const Loop& loop : *loops) {
    Dimension& d = at(dimensions, loop.dimension);
    d.push_back({loop.samples ? 1 : loop.extent, 0, 0, loop.samples});
    if (loop.samples) continue;
    places.emplace_back(loop.dimension, static_cast<int>(d.size()) - 1);
    p.batch.push_back(loop.extent);
    a_strides.push_back(loop.strides[0]);
    b_strides.push_back(loop.strides[1]);
  }
  a_strides.insert(a_strides.end(),
                   {stride_of(a.leaves[0], rank - 2), stride_of(a.leaves[0], rank - 1)});
  b_strides.insert(b_strides.end(),
                   {stride_of(b.leaves[0], rank - 2), stride_of(b.leaves[0], rank - 1)});
  Importer::Operands operands;
  p.a = operands.add(importer, a.leaves[0], a_strides, {});
  p.b = operands.add(importer, b.leaves[0], b_strides, {});
  operands.need_an_input();
  p.parameters = operands.parameters;
  p.constants = operands.constants;
  Leaf leaf;
  leaf.layer = importer.add(node, p, operands.inputs, operands.state);
  std::int64_t stride = p.rows * p.columns;
  for (auto place = places.rbegin(); place != places.rend(); ++place) {
    Atom& atom = at(at(dimensions, place->first), place->second);
    atom.stride = stride;
    stride *= atom.extent;
  }
  if (p.rows != 1) at(dimensions, rank - 2) = {Atom{p.rows, p.columns, 0, false}};
  if (p.columns != 1) at(dimensions, rank - 1) = {Atom{p.columns, 1, 0, false}};
  leaf.dimensions = std::move(dimensions);
  return bare(leaf, shape);
}

std::vector<LoweringRow> product_lowerings() {
  return {{"matmul", product},  {"mm", product},    {"bmm", product},
          {"baddbmm", product}, {"einsum", einsum}, {"scaled_dot_product_attention", attention}};
}

}  // namespace hetpipe::graph
