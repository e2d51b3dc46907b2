// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/importer.h"

// Operators with a layer of their own that works on images, rows or sequences.
namespace hetpipe::graph {
namespace {

// An image (N, C, H, W) or sequence (N, C, L) as a layer reads it, channels innermost; a sequence
// is an image of one column. Channels first, unbatched: refused.
struct Image {
  Dense dense;
  std::vector<int> inner;  // H, W, C as dimensions of the tensor
  Shape view;
};
Image image_of(Importer& importer, const Node& node, const Tensor& tensor) {
  Image image;
  if (tensor.rank() == 4) {
    image.inner = {2, 3, 1};
  } else if (tensor.rank() == 3) {
    image.inner = {2, 1};
  } else {
    throw Unsupported("an input of shape " + to_string(tensor.shape));
  }
  image.dense = importer.lay_out(node, tensor, image.inner);
  const auto extent = [&](int d) { return at(tensor.shape, d).number; };
  image.view = {image.dense.rows, extent(2), tensor.rank() == 4 ? extent(3) : 1, extent(1)};
  return image;
}
void give_image(Importer& importer, const Node& node, int layer, const Image& image,
                std::size_t i = 0) {
  const TensorShape& shape = node.shapes[i];
  std::vector<std::int64_t> extents;
  for (const int d : image.inner) extents.push_back(at(shape, d).number);
  importer.result(node, importer.output(layer, image.dense, image.inner, extents, shape), i);
}

// Two numbers of a list of one or two; of a sequence the second is `column`.
Sides sides(const std::vector<std::int64_t>& list, int column, bool sequence) {
  const int rows = static_cast<int>(list.at(0));
  if (sequence) return {rows, column};
  return {rows, static_cast<int>(list.size() > 1 ? list[1] : list[0])};
}

const State& weight_of(const Importer& importer, const Node& node) {
  return *importer.state_of(importer.parameter(node, "weight"));
}

void convolution(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Image image = image_of(importer, node, importer.input(node, "input"));
  const bool sequence = node.op.find("1d") != std::string::npos;
  const std::vector<std::int64_t>& weight = weight_of(importer, node).shape;
  Convolution c;
  c.output_channels = static_cast<int>(weight[0]);
  c.kernel = {static_cast<int>(weight[2]), sequence ? 1 : static_cast<int>(weight[3])};
  c.stride = sides(attributes.integers("stride", {1}), 1, sequence);
  c.dilation = sides(attributes.integers("dilation", {1}), 1, sequence);
  c.groups = static_cast<int>(attributes.integer("groups", 1));
  c.bias = node.has_input("bias");
  std::string how;
  try {
    how = attributes.text("padding", "");
  } catch (const UserError&) {  // numbers
  }
  if (how == "same") {
    const int rows = c.dilation.rows * (c.kernel.rows - 1);
    const int columns = c.dilation.columns * (c.kernel.columns - 1);
    c.padding = {rows / 2, columns / 2};
    if (rows % 2 != 0 || columns % 2 != 0)
      c.padding_end = Sides{rows - rows / 2, columns - columns / 2};
  } else if (how.empty()) {
    c.padding = sides(attributes.integers("padding", {0}), 0, sequence);
  }
  give_image(importer, node,
             importer.add(node, c, {image.dense}, {image.view},
                          importer.parameters(node, {"weight", "bias"})),
             image);
}

void transposed_convolution(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Image image = image_of(importer, node, importer.input(node, "input"));
  const bool sequence = node.op.find("1d") != std::string::npos;
  const std::vector<std::int64_t>& weight = weight_of(importer, node).shape;
  TransposedConvolution c;
  c.groups = static_cast<int>(attributes.integer("groups", 1));
  c.output_channels = static_cast<int>(weight[1]) * c.groups;
  c.kernel = {static_cast<int>(weight[2]), sequence ? 1 : static_cast<int>(weight[3])};
  c.stride = sides(attributes.integers("stride", {1}), 1, sequence);
  c.padding = sides(attributes.integers("padding", {0}), 0, sequence);
  c.output_padding = sides(attributes.integers("output_padding", {0}), 0, sequence);
  c.dilation = sides(attributes.integers("dilation", {1}), 1, sequence);
  c.bias = node.has_input("bias");
  give_image(importer, node,
             importer.add(node, c, {image.dense}, {image.view},
                          importer.parameters(node, {"weight", "bias"})),
             image);
}

void max_pool(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Image image = image_of(importer, node, importer.input(node, "self"));
  const bool sequence = node.op.find("1d") != std::string::npos;
  const std::vector<std::int64_t> kernel = attributes.integers("kernel_size");
  MaxPool p;
  p.kernel = sides(kernel, 1, sequence);
  const std::vector<std::int64_t> stride = attributes.integers("stride", kernel);
  p.stride = sides(stride.empty() ? kernel : stride, 1, sequence);
  p.padding = sides(attributes.integers("padding", {0}), 0, sequence);
  p.dilation = sides(attributes.integers("dilation", {1}), 1, sequence);
  p.ceil_mode = attributes.flag("ceil_mode", false);
  give_image(importer, node, importer.add(node, p, {image.dense}, {image.view}), image);
}

void average_pool(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  if (attributes.has("divisor_override")) throw Unsupported("divisor_override");
  const Image image = image_of(importer, node, importer.input(node, "self"));
  const bool sequence = node.op.find("1d") != std::string::npos;
  const std::vector<std::int64_t> kernel = attributes.integers("kernel_size");
  AveragePool p;
  p.kernel = sides(kernel, 1, sequence);
  const std::vector<std::int64_t> stride = attributes.integers("stride", kernel);
  p.stride = sides(stride.empty() ? kernel : stride, 1, sequence);
  p.padding = sides(attributes.integers("padding", {0}), 0, sequence);
  p.count_padding = attributes.flag("count_include_pad", true);
  p.ceil_mode = attributes.flag("ceil_mode", false);
  give_image(importer, node, importer.add(node, p, {image.dense}, {image.view}), image);
}

void adaptive_pool(Importer& importer, const Node& node) {
  const Image image = image_of(importer, node, importer.input(node, "self"));
  const TensorShape& out = node.shapes[0];
  AdaptivePool p;
  p.maximum = node.op.find("max") != std::string::npos;
  p.rows = static_cast<int>(out[2].number);
  p.columns = out.size() == 4 ? static_cast<int>(out[3].number) : 1;
  if (p.rows == image.view[1] && p.columns == image.view[2]) {
    return importer.result(node, importer.input(node, "self"));
  }
  give_image(importer, node, importer.add(node, p, {image.dense}, {image.view}), image);
}

void resize(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Image image =
      image_of(importer, node, importer.input(node, node.has_input("input") ? "input" : "self"));
  const TensorShape& out = node.shapes[0];
  const bool sequence = out.size() == 3;
  Resize r;
  r.rows = static_cast<int>(out[2].number);
  r.columns = sequence ? 1 : static_cast<int>(out[3].number);
  const bool aligned = attributes.flag("align_corners", false);
  const bool nearest = node.op.find("nearest") != std::string::npos;
  r.kind = nearest   ? Resize::Kind::nearest
           : aligned ? Resize::Kind::bilinear_aligned
                     : Resize::Kind::bilinear;
  std::vector<double> scales;
  if (attributes.has("scale_factors")) scales = attributes.numbers("scale_factors");
  if (scales.empty() && attributes.has("scales_h") && attributes.has("scales_w")) {
    scales = {attributes.number("scales_h"), attributes.number("scales_w")};
  }
  const auto step = [&](std::int64_t from, int to, std::size_t side) {
    if (r.kind == Resize::Kind::bilinear_aligned) {
      return to > 1 ? static_cast<double>(from - 1) / static_cast<double>(to - 1) : 0.0;
    }
    if (side < scales.size() && scales[side] > 0) return 1 / scales[side];
    return static_cast<double>(from) / static_cast<double>(to);
  };
  r.row_step = step(image.view[1], r.rows, 0);
  r.column_step = sequence ? 1 : step(image.view[2], r.columns, 1);
  give_image(importer, node, importer.add(node, r, {image.dense}, {image.view}), image);
}

// --- rows ---

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
    const Leaf& leaf = tokens.leaves[0];
    const std::optional<std::vector<Loop>> loops = common_loops({leaf}, tokens.shape);
    if (!loops) throw Unsupported("its indices are in an order that is not supported");
    std::vector<std::int64_t> places{leaf.offset};
    for (const Loop& loop : *loops) {
      if (loop.samples) continue;
      std::vector<std::int64_t> more;
      for (const std::int64_t p : places) {
        for (std::int64_t i = 0; i < loop.extent; ++i) more.push_back(p + i * loop.strides[0]);
      }
      places = std::move(more);
    }
    for (std::int64_t& p : places) p = static_cast<std::int64_t>(leaf.values[p]);
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

// --- what draws ---

Shape all_of_sample(const Dense& dense) { return {1, dense.rows}; }

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

// --- sequences ---

// The layers and directions of PyTorch's LSTM or GRU, one after another.
void recurrent(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const bool biases = attributes.flag("has_biases", true);
  const bool both = attributes.flag("bidirectional", false);
  const std::int64_t layers = attributes.integer("num_layers", 1);
  const auto rate = static_cast<float>(attributes.number("dropout", 0));
  if (node.inputs.count("hx") != 0 && !node.inputs.at("hx").empty()) {
    throw Unsupported("an initial state that is not zero");
  }
  const std::vector<std::string>& names = node.inputs.at("params");
  const std::size_t each = biases ? 4 : 2;
  Tensor x = importer.input(node, "input");
  if (!attributes.flag("batch_first", false)) permute(x, {1, 0, 2});
  const std::int64_t steps = x.shape[1].number;
  std::vector<Tensor> last;  // hidden states at the end, of each layer and direction
  std::size_t next = 0;
  for (std::int64_t l = 0; l < layers; ++l) {
    const Dense in = importer.lay_out(node, x, {1, 2});
    const std::int64_t features = x.shape[2].number;
    std::vector<Tensor> directions;
    for (int direction = 0; direction < (both ? 2 : 1); ++direction) {
      const std::vector<std::string> of(names.begin() + static_cast<std::ptrdiff_t>(next),
                                        names.begin() + static_cast<std::ptrdiff_t>(next + each));
      next += each;
      const State* const hidden_weight = importer.state_of(of[1]);
      if (hidden_weight == nullptr) throw Unsupported("weights that are computed");
      Recurrent r;
      r.kind = node.op == "gru" ? Recurrent::Kind::gru : Recurrent::Kind::lstm;
      r.hidden = static_cast<int>(hidden_weight->shape[1]);
      if (of.size() > 4) throw Unsupported("projections of an LSTM");
      r.bias = biases;
      r.reverse = direction == 1;
      const int layer = importer.add(node, r, {in}, {Shape{1, steps, features}}, of);
      const TensorShape shape{x.shape[0], x.shape[1], {r.hidden, false}};
      directions.push_back(importer.output(layer, in, {1, 2}, {steps, r.hidden}, shape));
      Tensor end = directions.back();
      if (!slice(end, 1, r.reverse ? 0 : steps - 1, 1, 1)) throw Unsupported("its last state");
      remove_dimension(end, 1);
      last.push_back(std::move(end));
    }
    x = directions[0];
    if (both) {
      Move joined;
      const std::int64_t hidden = x.shape[2].number;
      joined.output = {steps, 2 * hidden};
      std::vector<int> inputs;
      for (int d = 0; d < 2; ++d) {
        inputs.push_back(directions[at(d)].leaves[0].layer);
        joined.pieces.push_back(
            {{steps, hidden}, {Source::input, d, 0, {hidden, 1}}, d * hidden, {2 * hidden, 1}});
      }
      const int layer = importer.add(node, joined, inputs, {});
      x = importer.output(layer, in, {1, 2}, {steps, 2 * hidden},
                          {x.shape[0], x.shape[1], {2 * hidden, false}});
    }
    if (rate > 0 && l + 1 < layers) {
      const Dense dense = importer.lay_out(node, x, {});
      const int layer = importer.add(node, Dropout{rate}, {dense}, {all_of_sample(dense)});
      x = importer.output(layer, dense, {}, {}, x.shape);
    }
  }
  if (!attributes.flag("batch_first", false)) permute(x, {1, 0, 2});
  importer.result(node, x, 0);
  // (layers * directions, N, hidden): of one alone a view.
  if (last.size() == 1) {
    insert_dimension(last[0], 0);
    importer.result(node, last[0], 1);
  } else {
    for (Tensor& state : last) insert_dimension(state, 0);
    importer.result(node, side_by_side(importer, node, last, 0, node.shapes[1]), 1);
  }
}

}  // namespace

std::vector<LoweringRow> layer_lowerings() {
  return {{"conv1d", convolution},
          {"conv2d", convolution},
          {"conv_transpose1d", transposed_convolution},
          {"conv_transpose2d", transposed_convolution},
          {"max_pool1d", max_pool},
          {"max_pool2d", max_pool},
          {"avg_pool1d", average_pool},
          {"avg_pool2d", average_pool},
          {"adaptive_avg_pool1d", adaptive_pool},
          {"adaptive_avg_pool2d", adaptive_pool},
          {"adaptive_max_pool1d", adaptive_pool},
          {"adaptive_max_pool2d", adaptive_pool},
          {"upsample_nearest1d", resize},
          {"upsample_nearest2d", resize},
          {"upsample_bilinear2d", resize},
          {"linear", linear},
          {"addmm", addmm},
          {"embedding", embedding},
          {"dropout", drop},
          {"alpha_dropout", drop},
          {"feature_dropout", drop_together},
          {"stochastic_depth", drop_together},
          {"lstm", recurrent},
          {"gru", recurrent}};
}

}  // namespace hetpipe::graph
