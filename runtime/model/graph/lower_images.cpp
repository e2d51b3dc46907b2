// SPDX-License-Identifier: Apache-2.0
// Operators on images and sequences with channels: convolutions, pools, resizing.
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/lower_parts.h"

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

// Windows of a max or an average pool.
template <class Pool>
Pool pool_of(const Attributes& attributes, bool sequence) {
  const std::vector<std::int64_t> kernel = attributes.integers("kernel_size");
  const std::vector<std::int64_t> stride = attributes.integers("stride", kernel);
  Pool p;
  p.kernel = sides(kernel, 1, sequence);
  p.stride = sides(stride.empty() ? kernel : stride, 1, sequence);
  p.padding = sides(attributes.integers("padding", {0}), 0, sequence);
  p.ceil_mode = attributes.flag("ceil_mode", false);
  return p;
}

bool of_sequences(const Node& node) { return node.op.find("1d") != std::string::npos; }

void max_pool(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Image image = image_of(importer, node, importer.input(node, "self"));
  MaxPool p = pool_of<MaxPool>(attributes, of_sequences(node));
  p.dilation = sides(attributes.integers("dilation", {1}), 1, of_sequences(node));
  give_image(importer, node, importer.add(node, p, {image.dense}, {image.view}), image);
}

void average_pool(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  if (attributes.has("divisor_override")) throw Unsupported("divisor_override");
  const Image image = image_of(importer, node, importer.input(node, "self"));
  AveragePool p = pool_of<AveragePool>(attributes, of_sequences(node));
  p.count_padding = attributes.flag("count_include_pad", true);
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

}  // namespace

std::vector<LoweringRow> image_lowerings() {
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
          {"upsample_bilinear2d", resize}};
}

}  // namespace hetpipe::graph
