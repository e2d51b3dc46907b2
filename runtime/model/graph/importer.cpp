// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/importer.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "base/index.h"
#include "base/text.h"

namespace hetpipe::graph {

const State* Importer::state_of(const std::string& name) const {
  for (const State& state : graph_.state) {
    if (state.name != name) continue;
    return state.same_as.empty() ? &state : state_of(state.same_as);
  }
  return nullptr;
}

std::string Importer::parameter(const Node& node, const std::string& argument) const {
  const State* const state = state_of(node.input(argument));
  if (state == nullptr) {
    throw Unsupported("its " + argument + " is computed (and no parameter)");
  }
  return state->name;
}

std::vector<std::string> Importer::parameters(const Node& node,
                                              std::initializer_list<const char*> arguments) const {
  std::vector<std::string> names;
  for (const char* argument : arguments) {
    if (node.has_input(argument)) names.push_back(parameter(node, argument));
  }
  return names;
}

Tensor Importer::leaf_value(const std::string& name) const {
  std::int64_t offset = 0, all = 0;
  for (const Input& input : graph_.inputs) {
    std::int64_t elements = 1;
    for (const Extent& e : input.shape) elements *= e.number;
    if (input.name == name) offset = all;
    all += elements;
  }
  for (const Input& input : graph_.inputs) {
    if (input.name != name) continue;
    Leaf leaf;
    leaf.layer = kSamples;
    leaf.offset = offset;
    leaf.dimensions = in_order(input.shape);
    if (input.type == "float32" && input.shape.size() == 4 && input.shape[0] == Extent{1, true}) {
      // Images lie with their channels innermost.
      Layout layout{leaf.dimensions, {}};
      for (const int d : {2, 3, 1}) {
        if (!at(layout.dimensions, d).empty()) layout.order.emplace_back(d, 0);
      }
      leaf.dimensions = leaf_of(kSamples, layout).dimensions;
    }
    return bare(leaf, input.shape);
  }
  const auto shaped = [](const std::vector<std::int64_t>& extents) {
    TensorShape shape;
    for (const std::int64_t e : extents) shape.push_back({e, false});
    return shape;
  };
  if (const State* const state = state_of(name)) {
    Leaf leaf;
    leaf.kind = state->kind == StateKind::parameter ? Leaf::Kind::parameter : Leaf::Kind::constant;
    leaf.name = state->name;
    if (leaf.kind == Leaf::Kind::constant) {
      leaf.values = ConstantTable<float>(graph_.weights->floats(state->name));
    }
    leaf.dimensions = in_order(shaped(state->shape));
    return bare(leaf, shaped(state->shape));
  }
  if (graph_.constants != nullptr && graph_.constants->find(name) != nullptr) {
    Leaf leaf;
    leaf.kind = Leaf::Kind::constant;
    leaf.name = name;
    leaf.values = ConstantTable<float>(graph_.constants->floats(name));
    const TensorShape shape = shaped(graph_.constants->at(name).shape);
    leaf.dimensions = in_order(shape);
    return bare(leaf, shape);
  }
  throw UserError((graph_.folder / "graph.json").string(),
                  "'" + name +
                      "' is read, and is neither an input nor a tensor nor a node before "
                      "(the file was changed). Export the model again.");
}

Tensor Importer::value(const std::string& name) const {
  const std::size_t colon = name.rfind(':');
  const std::string node = colon == std::string::npos ? name : name.substr(0, colon);
  const auto found = values_.find(node);
  if (found == values_.end()) return leaf_value(name);
  const std::size_t i =
      colon == std::string::npos ? 0 : static_cast<std::size_t>(std::stoul(name.substr(colon + 1)));
  if (i >= found->second.size() || found->second[i].expression.steps.empty()) {
    throw Unsupported("output " + std::to_string(i) + " of '" + node + "' is not computed");
  }
  return found->second[i];
}

Tensor Importer::operand(const Node& node, const std::string& argument) const {
  if (node.has_input(argument)) return input(node, argument);
  return number(attributes(node).number(argument));
}

void Importer::result(const Node& node, Tensor tensor, std::size_t i) {
  std::vector<Tensor>& values = values_[node.name];
  if (values.size() <= i) values.resize(i + 1);
  // A view of an expression keeps the name of what computes it.
  if (tensor.bare() || tensor.origin == nullptr) tensor.origin = &node;
  // What is read more than once is computed once.
  const auto uses = uses_.find(node.name);
  if (!tensor.bare() && !tensor.constant() && uses != uses_.end() && uses->second > 1) {
    tensor = materialize(node, tensor);
    tensor.origin = &node;
  }
  values[i] = own_copies(std::move(tensor));
}

std::string Importer::layer_name(const Node& node, const LayerSpec&) {
  // A module that is one operator gives its name; what stands beside others adds its own.
  std::string base = node.module;
  for (char& c : base) {
    const bool good =
        std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
    if (!good) c = '_';
  }
  const auto free = [&](const std::string& name) {
    return !name.empty() && names_.count(name) == 0;
  };
  std::string name = base;
  if (!free(name)) name = (base.empty() ? "" : base + ".") + node.op;
  const std::string numbered = name;
  for (int i = 2; !free(name); ++i) name = numbered + "_" + std::to_string(i);
  names_.insert(name);
  return name;
}

int Importer::append(const Node& node, ModelLayer layer, const std::vector<std::string>& state) {
  layer.name = layer_name(node, layer.spec);
  for (const std::string& name : state) {
    const State* const of = state_of(name);
    layer.state.push_back({of->name, of->shape, of->kind == StateKind::frozen});
  }
  LayerShapes shapes;
  try {
    shapes = infer_shapes(layer.spec, model_.shapes_read(layer, 1));
  } catch (const std::invalid_argument& error) {
    throw Unsupported(error.what());
  }
  // The first layer that reads a parameter owns it.
  for (std::size_t p = 0; p < shapes.parameters.size(); ++p) {
    const std::string& name = shapes.parameters[p].name;
    const auto [owner, fresh] =
        owners_.try_emplace(layer.state.at(p).name, model_.layer_count(), name);
    if (!fresh) layer.shares.push_back({name, owner->second.first, owner->second.second});
  }
  return model_.add(std::move(layer));
}

int Importer::add(const Node& node, LayerSpec spec, std::vector<int> inputs,
                  const std::vector<std::string>& state) {
  ModelLayer layer{.name = "", .spec = std::move(spec), .inputs = std::move(inputs)};
  // What was computed for several parts of a sample at once is one sample's again.
  std::vector<Shape> views(layer.inputs.size());
  bool any = false;
  for (std::size_t i = 0; i < views.size(); ++i) {
    if (layer.inputs[i] == kSamples) continue;
    const Shape made = model_.output_shape(layer.inputs[i], 1);
    if (made[0] == 1) continue;
    views[i] = {1, made.elements()};
    any = true;
  }
  if (any) layer.views = std::move(views);
  return append(node, std::move(layer), state);
}

int Importer::add(const Node& node, LayerSpec spec, const std::vector<Dense>& inputs,
                  const std::vector<Shape>& views, const std::vector<std::string>& state) {
  ModelLayer layer{.name = "", .spec = std::move(spec), .inputs = {}, .shares = {}, .views = views};
  for (const Dense& input : inputs) layer.inputs.push_back(input.leaf.layer);
  return append(node, std::move(layer), state);
}

const std::map<std::string, Lowering>& lowerings() {
  static const std::map<std::string, Lowering> all = [] {
    std::map<std::string, Lowering> rows;
    for (const auto& of_file : {pointwise_lowerings(), view_lowerings(), piece_lowerings(),
                                image_lowerings(), row_lowerings(), sequence_lowerings(),
                                norm_lowerings(), product_lowerings(), reduction_lowerings()}) {
      for (const LoweringRow& row : of_file) rows[row.op] = row.lower;
    }
    return rows;
  }();
  return all;
}

void Importer::lower_one(const Node& node) {
  const auto found = lowerings().find(node.op);
  if (found == lowerings().end()) throw Unsupported("no layer computes this operator");
  found->second(*this, node);
}

void Importer::lower(const std::vector<std::string>& wanted) {
  const auto node_of = [](const std::string& value) { return value.substr(0, value.rfind(':')); };
  std::set<std::string> needed;
  for (const std::string& value : wanted) {
    needed.insert(node_of(value));
    ++uses_[node_of(value)];
  }
  for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
    if (needed.count(node->name) == 0) continue;
    for (const auto& [argument, values] : node->inputs) {
      for (const std::string& value : values) {
        needed.insert(node_of(value));
        ++uses_[node_of(value)];
      }
    }
  }
  Problems problems;
  std::set<std::string> broken;  // nodes without a value
  for (const Node& node : graph_.nodes) {
    if (needed.count(node.name) == 0) continue;
    bool ready = true;
    for (const auto& [argument, values] : node.inputs) {
      for (const std::string& value : values) ready = ready && broken.count(node_of(value)) == 0;
    }
    if (!ready) {
      broken.insert(node.name);
      if (lowerings().count(node.op) == 0) {
        problems.add(place_of(node), "no layer computes this operator");
      }
      continue;
    }
    try {
      lower_one(node);
    } catch (const Unsupported& error) {
      problems.add(place_of(node), error.what());
      broken.insert(node.name);
    }
  }
  problems.throw_if_any();
}

}  // namespace hetpipe::graph
