// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/index.h"
#include "runtime/model/graph/importer.h"

// Norms, and what works on the last dimension alone.
namespace hetpipe::graph {
namespace {

// Channels are dimension 1, rows all else.
struct Channels {
  Dense dense;
  std::vector<int> inner;
  std::vector<std::int64_t> extents;
  std::int64_t places = 1;  // of a sample
};
Channels channels_of(Importer& importer, const Node& node, const Tensor& tensor,
                     bool whole_samples) {
  Channels c;
  if (whole_samples) {  // a sample's places together, channels innermost
    for (int d = 2; d < tensor.rank(); ++d) c.inner.push_back(d);
  }
  c.inner.push_back(1);
  c.dense = importer.lay_out(node, tensor, c.inner);
  for (const int d : c.inner) c.extents.push_back(at(tensor.shape, d).number);
  for (int d = 2; d < tensor.rank(); ++d) c.places *= at(tensor.shape, d).number;
  return c;
}

void batch_norm(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Tensor x = importer.input(node, "input");
  if (!attributes.flag("training", true)) {
    throw Unsupported("running statistics in training (the module is in eval mode)");
  }
  const Channels c = channels_of(importer, node, x, false);
  BatchNorm b;
  b.epsilon = static_cast<float>(attributes.number("eps", 1e-5));
  b.momentum = static_cast<float>(attributes.number("momentum", 0.1));
  b.affine = node.has_input("weight");
  b.tracked = node.has_input("running_mean");
  std::vector<std::string> state = importer.parameters(node, {"weight", "bias"});
  if (b.tracked) {
    for (const char* argument : {"running_mean", "running_var"})
      state.push_back(node.input(argument));
  }
  const std::int64_t channels = x.shape[1].number;
  const Shape view = c.dense.rows == 1 ? Shape{1, channels} : Shape{1, c.dense.rows, channels};
  const int layer = importer.add(node, b, {c.dense}, {view}, state);
  importer.result(node, importer.output(layer, c.dense, c.inner, c.extents, x.shape));
}

void group_norm(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Tensor x = importer.input(node, "input");
  const Channels c = channels_of(importer, node, x, true);
  const std::int64_t channels = x.shape[1].number;
  GroupNorm g;
  g.groups = node.op == "instance_norm" ? static_cast<int>(channels)
                                        : static_cast<int>(attributes.integer("num_groups"));
  if (node.op == "instance_norm" && node.has_input("running_mean")) {
    throw Unsupported("running statistics of an instance norm");
  }
  g.epsilon = static_cast<float>(attributes.number("eps", 1e-5));
  g.affine = node.has_input("weight");
  const int layer = importer.add(node, g, {c.dense}, {Shape{c.dense.rows, c.places, channels}},
                                 importer.parameters(node, {"weight", "bias"}));
  importer.result(node, importer.output(layer, c.dense, c.inner, c.extents, x.shape));
}

struct LastDimensions {
  Dense dense;
  std::vector<int> inner;
  std::vector<std::int64_t> extents;
  Shape view;
};
LastDimensions last_dimensions(Importer& importer, const Node& node, const Tensor& x, int count) {
  LastDimensions l;
  std::int64_t features = 1;
  for (int d = x.rank() - count; d < x.rank(); ++d) {
    l.inner.push_back(d);
    l.extents.push_back(at(x.shape, d).number);
    features *= l.extents.back();
  }
  l.dense = importer.lay_out(node, x, l.inner);
  l.view = l.dense.rows == 1 ? Shape{1, features} : Shape{1, l.dense.rows, features};
  return l;
}
void give(Importer& importer, const Node& node, int layer, const LastDimensions& l) {
  importer.result(node, importer.output(layer, l.dense, l.inner, l.extents, node.shapes[0]));
}

void layer_norm(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const LastDimensions l =
      last_dimensions(importer, node, importer.input(node, "input"),
                      static_cast<int>(attributes.integers("normalized_shape").size()));
  LayerNorm n;
  n.epsilon = static_cast<float>(attributes.number("eps", 1e-5));
  n.scaled = node.has_input("weight");
  n.shifted = node.has_input("bias");
  give(importer, node,
       importer.add(node, n, {l.dense}, {l.view}, importer.parameters(node, {"weight", "bias"})),
       l);
}

void rms_norm(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const LastDimensions l =
      last_dimensions(importer, node, importer.input(node, "input"),
                      static_cast<int>(attributes.integers("normalized_shape").size()));
  RmsNorm n;
  n.epsilon = static_cast<float>(attributes.number("eps", 1.1920929e-07));
  n.scaled = node.has_input("weight");
  give(importer, node,
       importer.add(node, n, {l.dense}, {l.view}, importer.parameters(node, {"weight"})), l);
}

void softmax(Importer& importer, const Node& node) {
  const Tensor x = importer.input(node, node.has_input("self") ? "self" : "input");
  std::int64_t dim = importer.attributes(node).integer("dim", -1);
  if (dim < 0) dim += x.rank();
  if (at(x.shape, dim).samples) throw Unsupported("it mixes the samples of a batch");
  const std::vector<int> inner{static_cast<int>(dim)};
  const Dense dense = importer.lay_out(node, x, inner);
  const std::int64_t features = at(x.shape, dim).number;
  const Shape view = dense.rows == 1 ? Shape{1, features} : Shape{1, dense.rows, features};
  Softmax s;
  s.logarithm = node.op.find("log") != std::string::npos;
  const int layer = importer.add(node, s, {dense}, {view});
  importer.result(node, importer.output(layer, dense, inner, {features}, x.shape));
}

}  // namespace

std::vector<LoweringRow> norm_lowerings() {
  return {{"batch_norm", batch_norm}, {"group_norm", group_norm}, {"instance_norm", group_norm},
          {"layer_norm", layer_norm}, {"rms_norm", rms_norm},     {"softmax", softmax},
          {"_softmax", softmax},      {"log_softmax", softmax},   {"_log_softmax", softmax}};
}

}  // namespace hetpipe::graph
