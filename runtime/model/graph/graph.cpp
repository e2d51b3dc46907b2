// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/graph.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

namespace hetpipe::graph {
namespace {

constexpr const char* kFormat = "hetpipe-graph";
constexpr std::int64_t kVersion = 1;
constexpr std::size_t kLargestGraph = std::size_t{256} << 20;

Extent read_extent(const Json& json) {
  if (!json.is_string()) {
    const auto number = json.get<std::int64_t>();
    if (number < 0) throw JsonError(json.dump() + " is no extent");
    return {number, false};
  }
  const std::string text = json.get<std::string>();
  if (text == "N") return {1, true};
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || std::string_view(end) != "*N" || number < 1) {
    throw JsonError("'" + text + "' is no extent: a number, \"N\" or \"4*N\"");
  }
  return {number, true};
}

TensorShape read_shape(const Json& json) {
  TensorShape shape;
  for (const Json& extent : json.items()) shape.push_back(read_extent(extent));
  return shape;
}

std::vector<std::int64_t> read_numbers(const Json& json) {
  std::vector<std::int64_t> numbers;
  for (const Json& number : json.items()) numbers.push_back(number.get<std::int64_t>());
  return numbers;
}

std::string text_or(const Json& json, const char* key, const std::string& otherwise) {
  const Json* const found = json.find(key);
  return found == nullptr || found->is_null() ? otherwise : found->get<std::string>();
}

State read_state(const std::string& name, const Json& json) {
  State state;
  state.name = name;
  state.same_as = text_or(json, "same_as", "");
  if (!state.same_as.empty()) return state;
  state.shape = read_numbers(json.at("shape"));
  state.type = json.at("type").get<std::string>();
  static const std::vector<std::string> kKinds{"parameter", "buffer", "frozen"};
  state.kind = static_cast<StateKind>(json.at("kind").place_in(kKinds));
  return state;
}

Node read_node(const Json& json) {
  Node node;
  node.name = json.at("name").get<std::string>();
  node.op = json.at("op").get<std::string>();
  node.module = text_or(json, "module", "");
  node.source = text_or(json, "source", "");
  if (const Json* const inputs = json.find("inputs")) {
    for (const Json::Member& member : inputs->members()) {
      std::vector<std::string>& values = node.inputs[member.key];
      if (member.value.is_array()) {
        for (const Json& value : member.value.items()) values.push_back(value.get<std::string>());
      } else {
        values.push_back(member.value.get<std::string>());
      }
    }
  }
  if (const Json* const attributes = json.find("attributes")) node.attributes = *attributes;
  if (const Json* const shapes = json.find("shapes")) {
    for (const Json& shape : shapes->items()) node.shapes.push_back(read_shape(shape));
    const Json& types = json.at("types");
    for (const Json& type : types.items()) node.types.push_back(type.get<std::string>());
  } else {
    node.shapes.push_back(read_shape(json.at("shape")));
    node.types.push_back(json.at("type").get<std::string>());
  }
  return node;
}

void read_document(const Json& json, Graph& graph) {
  if (text_or(json, "format", "") != kFormat) {
    throw JsonError("format is not \"" + std::string(kFormat) + "\"");
  }
  const auto version = json.at("version").get<std::int64_t>();
  if (version != kVersion) {
    throw JsonError(format("version %lld (this program reads %lld)",
                           static_cast<long long>(version), static_cast<long long>(kVersion)));
  }
  graph.name = json.at("name").get<std::string>();
  graph.producer = text_or(json, "producer", "");
  const Json &inputs = json.at("inputs"), &outputs = json.at("outputs"), &state = json.at("state"),
             &nodes = json.at("nodes");
  for (const Json& input : inputs.items()) {
    graph.inputs.push_back({input.at("name").get<std::string>(), read_shape(input.at("shape")),
                            input.at("type").get<std::string>()});
  }
  for (const Json& output : outputs.items()) {
    graph.outputs.push_back(
        {output.at("name").get<std::string>(), output.at("value").get<std::string>()});
  }
  for (const Json::Member& member : state.members()) {
    graph.state.push_back(read_state(member.key, member.value));
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    try {
      graph.nodes.push_back(read_node(nodes.at(i)));
    } catch (const JsonError& error) {
      throw error.inside(format("nodes[%zu]", i));
    }
  }
}

}  // namespace

std::string to_string(const TensorShape& shape) {
  std::vector<std::string> parts;
  for (const Extent& e : shape) {
    parts.push_back(!e.samples      ? std::to_string(e.number)
                    : e.number == 1 ? "N"
                                    : std::to_string(e.number) + "*N");
  }
  return "(" + join(parts, ", ") + ")";
}

bool Node::has_input(const std::string& argument) const {
  const auto found = inputs.find(argument);
  return found != inputs.end() && !found->second.empty();
}

const std::string& Node::input(const std::string& argument) const {
  if (!has_input(argument)) {
    throw UserError(place_of(*this), "has no input '" + argument + "'. Export the model again.");
  }
  return inputs.at(argument).front();
}

std::string place_of(const Node& node) {
  return (node.source.empty() ? "" : node.source + ": ") +
         (node.module.empty() ? node.name : node.module) + " (" + node.op + ")";
}

bool is_graph(const std::filesystem::path& folder) {
  std::error_code code;
  return std::filesystem::is_regular_file(folder / "graph.json", code);
}

Graph read_graph(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "graph.json";
  Graph graph;
  graph.folder = folder;
  try {
    read_document(Json::parse(read_file(path, kLargestGraph)), graph);
  } catch (const JsonError& error) {
    throw UserError(path.string(), std::string(error.what()) +
                                       " (it was changed, or written by another version). Export "
                                       "the model again.");
  }
  graph.weights = std::make_shared<Safetensors>(folder / "weights.safetensors");
  std::error_code code;
  if (std::filesystem::exists(folder / "constants.safetensors", code)) {
    graph.constants = std::make_shared<Safetensors>(folder / "constants.safetensors");
  }
  return graph;
}

bool Attributes::has(const std::string& name) const {
  const Json* const found = node_.attributes.find(name);
  return found != nullptr && !found->is_null();
}

const Json& Attributes::at(const std::string& name) const {
  if (!has(name)) {
    throw UserError(place_of(node_), "has no attribute '" + name + "'. Export the model again.");
  }
  return *node_.attributes.find(name);
}

template <class Read>
auto Attributes::read(const std::string& name, const Read& read) const {
  const Json& value = at(name);
  try {
    return read(value);
  } catch (const JsonError& error) {
    throw UserError(place_of(node_),
                    "attribute '" + name + "': " + error.what() + ". Export the model again.");
  }
}

bool Attributes::flag(const std::string& name, bool otherwise) const {
  if (!has(name)) return otherwise;
  return read(name, [](const Json& v) { return v.get<bool>(); });
}
std::int64_t Attributes::integer(const std::string& name) const {
  return read(name, [](const Json& v) { return v.get<std::int64_t>(); });
}
std::int64_t Attributes::integer(const std::string& name, std::int64_t otherwise) const {
  return has(name) ? integer(name) : otherwise;
}
double Attributes::number(const std::string& name) const {
  return read(name, [](const Json& v) {
    if (v.is_string()) {  // JSON has no infinite numbers
      const std::string text = v.get<std::string>();
      if (text == "inf") return HUGE_VAL;
      if (text == "-inf") return -HUGE_VAL;
      if (text == "nan") return std::nan("");
    }
    if (std::holds_alternative<bool>(v.value())) return v.get<bool>() ? 1.0 : 0.0;
    return v.get<double>();
  });
}
double Attributes::number(const std::string& name, double otherwise) const {
  return has(name) ? number(name) : otherwise;
}
std::string Attributes::text(const std::string& name, const std::string& otherwise) const {
  if (!has(name)) return otherwise;
  return read(name, [](const Json& v) { return v.get<std::string>(); });
}
std::vector<std::int64_t> Attributes::integers(const std::string& name) const {
  return read(name, [](const Json& v) {
    if (!v.is_array()) return std::vector<std::int64_t>{v.get<std::int64_t>()};
    return read_numbers(v);
  });
}
std::vector<std::int64_t> Attributes::integers(const std::string& name,
                                               std::vector<std::int64_t> otherwise) const {
  return has(name) ? integers(name) : std::move(otherwise);
}
std::vector<double> Attributes::numbers(const std::string& name) const {
  return read(name, [](const Json& v) {
    if (!v.is_array()) return std::vector<double>{v.get<double>()};
    std::vector<double> numbers;
    for (const Json& number : v.items()) numbers.push_back(number.get<double>());
    return numbers;
  });
}

}  // namespace hetpipe::graph
