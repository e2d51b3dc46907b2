// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/recognise.h"

#include <algorithm>

namespace hetpipe::graph {
namespace {

class Pieces {
 public:
  explicit Pieces(Graph& graph) : graph_(graph) {
    for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
      places_[graph.nodes[i].name] = i;
      for (const auto& [argument, values] : graph.nodes[i].inputs) {
        for (const std::string& value : values) ++readers_[value];
      }
    }
    for (const Output& output : graph.outputs) ++readers_[output.value];
  }
  const Node* node(const std::string& value, const char* op) const {
    const auto found = places_.find(value);
    if (found == places_.end() || graph_.nodes[found->second].op != op) return nullptr;
    return &graph_.nodes[found->second];
  }
  int readers(const std::string& value) const {
    const auto found = readers_.find(value);
    return found == readers_.end() ? 0 : found->second;
  }
  // The two factors of a product of tensors, in both orders: try_with(a, b) until one fits.
  template <class Try>
  static bool either(const Node& node, const Try& try_with) {
    if (node.op != "mul" || !node.has_input("self") || !node.has_input("other")) return false;
    const std::string a = node.input("self"), b = node.input("other");
    return try_with(a, b) || try_with(b, a);
  }

 private:
  Graph& graph_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, int> readers_;
};

void become(Node& node, const char* op, std::map<std::string, std::vector<std::string>> inputs,
            Json attributes) {
  node.op = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
}

bool stochastic_depth(const Graph& graph, const Pieces& pieces, Node& node) {
  return Pieces::either(node, [&](const std::string& x, const std::string& mask) {
    const Node* const m = pieces.node(mask, "stochastic_depth_mask");
    if (m == nullptr || m->shapes[0].size() != node.shapes[0].size()) return false;
    const Attributes attributes(graph, *m);
    if (!attributes.flag("scale", true)) return false;
    become(node, "stochastic_depth", {{"input", {x}}}, {{"p", 1 - attributes.number("keep")}});
    return true;
  });
}

// rsqrt(mean(x^2, last, keepdim) + eps): eps, where it is that.
bool is_root_mean_square(const Graph& graph, const Pieces& pieces, const std::string& value,
                         const std::string& x, double& epsilon) {
  const Node* const root = pieces.node(value, "rsqrt");
  if (root == nullptr) return false;
  const Node* const sum = pieces.node(root->input("self"), "add");
  if (sum == nullptr || sum->has_input("other")) return false;
  const Node* const mean = pieces.node(sum->input("self"), "mean");
  if (mean == nullptr) return false;
  const Attributes of_mean(graph, *mean);
  const auto rank = static_cast<std::int64_t>(mean->shapes[0].size());
  const std::vector<std::int64_t> dims = of_mean.integers("dim", {});
  if (dims.size() != 1 || (dims[0] != -1 && dims[0] != rank - 1) ||
      !of_mean.flag("keepdim", false)) {
    return false;
  }
  const std::string& squared = mean->input("self");
  if (const Node* const power = pieces.node(squared, "pow")) {
    if (power->has_input("exponent") || power->input("self") != x ||
        Attributes(graph, *power).number("exponent") != 2) {
      return false;
    }
  } else if (const Node* const square = pieces.node(squared, "square")) {
    if (square->input("self") != x) return false;
  } else if (const Node* const product = pieces.node(squared, "mul")) {
    if (!product->has_input("other") || product->input("self") != x ||
        product->input("other") != x) {
      return false;
    }
  } else {
    return false;
  }
  epsilon = Attributes(graph, *sum).number("other");
  return true;
}

bool rms_norm(const Graph& graph, const Pieces& pieces, Node& node) {
  return Pieces::either(node, [&](const std::string& x, const std::string& root) {
    double epsilon = 0;
    if (!is_root_mean_square(graph, pieces, root, x, epsilon)) return false;
    become(node, "rms_norm", {{"input", {x}}},
           {{"eps", epsilon}, {"normalized_shape", Json::Array{node.shapes[0].back().number}}});
    return true;
  });
}

// weight * rms_norm(x), where the weight is a parameter of the last dimension.
bool scaled_rms_norm(const Graph& graph, const Pieces& pieces, Node& node) {
  return Pieces::either(node, [&](const std::string& weight, const std::string& normed) {
    const Node* const norm = pieces.node(normed, "rms_norm");
    if (norm == nullptr || norm->has_input("weight") || pieces.readers(normed) != 1) return false;
    const auto state = std::find_if(graph.state.begin(), graph.state.end(),
                                    [&](const State& s) { return s.name == weight; });
    if (state == graph.state.end() || state->kind != StateKind::parameter ||
        state->shape != std::vector<std::int64_t>{node.shapes[0].back().number}) {
      return false;
    }
    const std::string x = norm->input("input");
    Json attributes = norm->attributes;
    become(node, "rms_norm", {{"input", {x}}, {"weight", {weight}}}, std::move(attributes));
    return true;
  });
}

}  // namespace

void recognise(Graph& graph) {
  const Pieces pieces(graph);
  for (Node& node : graph.nodes) {
    if (stochastic_depth(graph, pieces, node) || rms_norm(graph, pieces, node)) continue;
    scaled_rms_norm(graph, pieces, node);
  }
}

}  // namespace hetpipe::graph
