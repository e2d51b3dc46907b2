// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/own_loss.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "base/text.h"

namespace hetpipe::graph {
namespace {

using Extents = std::vector<std::int64_t>;

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  throw UserError(node.module.empty() ? "model" : "module " + node.module,
                  node.op + (node.source.empty() ? "" : " (" + node.source + ")") + " " + why +
                      ". Export the model so that it returns its predictions, and choose --loss.");
}

const Node* producer(const Graph& graph, const std::string& value) {
  const std::string name = value.substr(0, value.rfind(':'));
  for (const Node& node : graph.nodes) {
    if (node.name == name) return &node;
  }
  return nullptr;
}

// Of one sample: N is 1.
Extents extents_of(const TensorShape& shape) {
  Extents extents;
  for (const Extent& e : shape) extents.push_back(e.number);
  return extents;
}

std::int64_t product(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

// A tensor of places of an input's elements, of one sample; -1: `none`.
struct Places {
  std::string input;
  Extents shape;
  std::vector<std::int32_t> from;
};

// For each element of the result the element of the operand, by its indices; -1: none.
template <class Index>
Places moved(const Places& x, const Extents& shape, const Index& index) {
  Places result{x.input, shape, {}};
  std::vector<std::int64_t> at_place(shape.size(), 0);
  for (std::int64_t e = 0; e < product(shape); ++e) {
    std::int64_t rest = e;
    for (std::size_t d = shape.size(); d-- > 0;) {
      at_place[d] = rest % shape[d];
      rest /= shape[d];
    }
    const std::vector<std::int64_t> source = index(at_place);
    std::int64_t element = 0;
    bool inside = true;
    for (std::size_t d = 0; d < x.shape.size(); ++d) {
      inside = inside && 0 <= source[d] && source[d] < x.shape[d];
      element = element * x.shape[d] + source[d];
    }
    result.from.push_back(inside ? x.from[at(element)] : -1);
  }
  return result;
}

class LabelReader {
 public:
  LabelReader(const Graph& graph, int none) : graph_(graph), none_(none) {}

  Places read(const std::string& value) const {
    for (const Input& input : graph_.inputs) {
      if (input.name != value) continue;
      Places places{input.name, extents_of(input.shape), {}};
      places.from.resize(at(product(places.shape)));
      std::iota(places.from.begin(), places.from.end(), 0);
      return places;
    }
    const Node* const node = producer(graph_, value);
    if (node == nullptr) {
      throw UserError("model", "its loss compares with '" + value +
                                   "', which is no input. Export the model so that it returns its "
                                   "predictions, and choose --loss.");
    }
    return of(*node);
  }

 private:
  Places of(const Node& node) const {
    static const std::set<std::string> kViews{"view",    "reshape",   "flatten", "unflatten",
                                              "squeeze", "unsqueeze", "to",      "detach"};
    const Attributes attributes(graph_, node);
    const Extents shape = extents_of(node.shapes.front());
    if (kViews.count(node.op) > 0) {
      Places places = read(node.input("self"));
      places.shape = shape;
      return places;
    }
    const auto self = [&] { return read(node.input("self")); };
    const auto dim = [&] { return at(attributes.integer("dim")); };
    if (node.op == "slice") {
      const std::int64_t start = attributes.integer("start"), step = attributes.integer("step");
      return moved(self(), shape, [&](std::vector<std::int64_t> i) {
        i[dim()] = start + step * i[dim()];
        return i;
      });
    }
    if (node.op == "select") {
      const std::int64_t index = attributes.integer("index");
      return moved(self(), shape, [&](std::vector<std::int64_t> i) {
        i.insert(i.begin() + static_cast<std::ptrdiff_t>(dim()), index);
        return i;
      });
    }
    if (node.op == "permute" || node.op == "transpose") {
      const Places x = self();
      std::vector<std::int64_t> order(x.shape.size());
      std::iota(order.begin(), order.end(), 0);
      if (node.op == "permute") {
        order = attributes.integers("dims");
      } else {
        std::swap(order[at(attributes.integer("dim0"))], order[at(attributes.integer("dim1"))]);
      }
      return moved(x, shape, [&](const std::vector<std::int64_t>& i) {
        std::vector<std::int64_t> source(i.size());
        for (std::size_t d = 0; d < i.size(); ++d) source[at(order[d])] = i[d];
        return source;
      });
    }
    if (node.op == "constant_pad_nd") {
      if (attributes.number("value") != none_) {
        refuse(node, "pads labels with another number than the one that is ignored");
      }
      const std::vector<std::int64_t> pad = attributes.integers("pad");
      return moved(self(), shape, [&](std::vector<std::int64_t> i) {
        for (std::size_t d = 0; d < pad.size() / 2; ++d) i[i.size() - 1 - d] -= pad[2 * d];
        return i;
      });
    }
    refuse(node, "computes labels (only views, slices and paddings of an input are supported)");
  }

  const Graph& graph_;
  int none_;
};

class Terms {
 public:
  explicit Terms(Graph& graph) : graph_(graph) {}

  void add(const std::string& value, double weight) {
    const Node* const found = producer(graph_, value);
    if (found == nullptr) {
      throw UserError("model", "its loss '" + value +
                                   "' is no result of an operator. Export a "
                                   "model that computes one.");
    }
    const Node node = *found;  // nodes are added
    const Attributes attributes(graph_, node);
    const auto number = [&](const char* argument) -> std::optional<double> {
      if (node.has_input(argument) || !node.attributes.contains(argument)) return std::nullopt;
      return attributes.number(argument);
    };
    if (node.op == "add" || node.op == "sub") {
      if (!node.has_input("self") || !node.has_input("other")) {
        refuse(node, "adds a number to a loss, which has no gradient");
      }
      const double sign = node.op == "add" ? 1 : -1;
      add(node.input("self"), weight);
      add(node.input("other"), sign * weight * number("alpha").value_or(1));
    } else if (node.op == "mul" && (number("other") || number("self"))) {
      const bool right = number("other").has_value();
      add(node.input(right ? "self" : "other"),
          weight * (right ? *number("other") : *number("self")));
    } else if (node.op == "div" && number("other")) {
      add(node.input("self"), weight / *number("other"));
    } else if (node.op == "neg") {
      add(node.input("self"), -weight);
    } else if (node.op == "view" || node.op == "squeeze" || node.op == "to") {
      add(node.input("self"), weight);
    } else if (node.op == "mean") {
      if (!node.shapes.front().empty()) refuse(node, "is not of all elements");
      terms.push_back({.weight = weight, .value = node.input("self")});
    } else if (node.op == "cross_entropy_loss") {
      cross_entropy(node, weight);
    } else if (node.op == "mse_loss" || node.op == "l1_loss" ||
               node.op == "binary_cross_entropy_with_logits") {
      regression(node, weight);
    } else {
      refuse(node, "is no sum of means over the samples");
    }
  }

  std::vector<OwnTerm> terms;

 private:
  void mean_alone(const Node& node) const {
    if (Attributes(graph_, node).integer("reduction") != 1) refuse(node, "is not a mean");
  }

  void cross_entropy(const Node& node, double weight) {
    mean_alone(node);
    const Attributes attributes(graph_, node);
    OwnTerm term{.weight = weight, .cross_entropy = true, .value = node.input("self")};
    term.ignore_index = static_cast<int>(attributes.integer("ignore_index"));
    term.smoothing = static_cast<float>(attributes.number("label_smoothing"));
    if (node.has_input("weight")) term.class_weights = node.input("weight");
    const Places places = LabelReader(graph_, term.ignore_index).read(node.input("target"));
    term.labels = {places.input, places.from};
    terms.push_back(std::move(term));
  }

  // As the mean of a value of its own.
  void regression(const Node& node, double weight) {
    mean_alone(node);
    if (node.has_input("weight") || node.has_input("pos_weight")) refuse(node, "has weights");
    const std::string x = node.input("self"), target = node.input("target");
    const Node* const of = producer(graph_, x);
    if (of == nullptr) refuse(node, "compares what no operator computes");
    const TensorShape shape = of->shapes.front();  // nodes are added
    const auto emit = [&](const char* op, std::map<std::string, std::vector<std::string>> inputs,
                          Json attributes = Json::object()) {
      Node made = node;
      made.op = op;
      made.name = node.name + "_" + op;
      made.inputs = std::move(inputs);
      made.attributes = std::move(attributes);
      made.shapes = {shape};
      graph_.nodes.push_back(made);
      return made.name;
    };
    const Json one{{"alpha", 1}};
    std::string error;
    if (node.op == "binary_cross_entropy_with_logits") {
      // log(1 + e^x) - x target
      const std::string whole =
          emit("softplus", {{"self", {x}}}, {{"beta", 1.0}, {"threshold", 20.0}});
      const std::string hit = emit("mul", {{"self", {x}}, {"other", {target}}});
      error = emit("sub", {{"self", {whole}}, {"other", {hit}}}, one);
    } else {
      const std::string gap = emit("sub", {{"self", {x}}, {"other", {target}}}, one);
      error = node.op == "mse_loss" ? emit("square", {{"self", {gap}}})
                                    : emit("abs", {{"self", {gap}}});
    }
    terms.push_back({.weight = weight, .value = error});
  }

  Graph& graph_;
};

}  // namespace

std::vector<OwnTerm> own_terms(Graph& graph, const std::string& value) {
  Terms terms(graph);
  terms.add(value, 1);
  return std::move(terms.terms);
}

std::vector<Input> inputs_needed(const Graph& graph, const std::vector<std::string>& values) {
  std::set<std::string> needed;
  for (const std::string& value : values) needed.insert(value.substr(0, value.rfind(':')));
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (needed.count(node->name) == 0) continue;
    for (const auto& [argument, of] : node->inputs) {
      for (const std::string& one : of) needed.insert(one.substr(0, one.rfind(':')));
    }
  }
  std::vector<Input> inputs;
  for (const Input& input : graph.inputs) {
    if (needed.count(input.name) > 0) inputs.push_back(input);
  }
  return inputs;
}

}  // namespace hetpipe::graph
