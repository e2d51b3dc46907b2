// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/safetensors.h"

// A network as PyTorch exported it: the folder that docs/graph-format.md describes, as a value.
namespace hetpipe::graph {

// An extent: a number, or a multiple of the number of samples.
struct Extent {
  std::int64_t number = 1;
  bool samples = false;  // times N
  bool operator==(const Extent&) const = default;
};
using TensorShape = std::vector<Extent>;
std::string to_string(const TensorShape& shape);  // "(N, 3, 224, 224)"

struct Input {
  std::string name;
  TensorShape shape;
  std::string type;  // "float32", "int64"
};
struct Output {
  std::string name;
  std::string value;
};
enum class StateKind { parameter, buffer, frozen };
struct State {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string type;
  StateKind kind = StateKind::parameter;
  std::string same_as;  // of tied names: the first; empty: this one
};
struct Node {
  std::string name;
  std::string op;      // "conv2d"
  std::string module;  // "layer3.4.conv2"
  std::string source;  // "model.py:17"
  // By argument: one value, or several of a list.
  std::map<std::string, std::vector<std::string>> inputs;
  Json attributes;
  std::vector<TensorShape> shapes;  // of its outputs
  std::vector<std::string> types;

  bool has_input(const std::string& argument) const;
  // The only value of an argument; UserError where it is missing.
  const std::string& input(const std::string& argument) const;
};

struct Graph {
  std::filesystem::path folder;
  std::string name;
  std::string producer;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<State> state;
  std::vector<Node> nodes;
  std::shared_ptr<const Safetensors> weights;
  std::shared_ptr<const Safetensors> constants;  // null where there are none
};

// Whether a folder holds an exported network.
bool is_graph(const std::filesystem::path& folder);
// UserError naming the file, and the node where one is wrong.
Graph read_graph(const std::filesystem::path& folder);

// Attributes of a node, each of a type; UserError naming node, attribute and value.
class Attributes {
 public:
  Attributes(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}
  bool has(const std::string& name) const;  // and is not null
  bool flag(const std::string& name, bool otherwise) const;
  std::int64_t integer(const std::string& name) const;
  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  double number(const std::string& name) const;
  double number(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  // A list, or one number as a list of one.
  std::vector<std::int64_t> integers(const std::string& name) const;
  std::vector<std::int64_t> integers(const std::string& name,
                                     std::vector<std::int64_t> otherwise) const;
  std::vector<double> numbers(const std::string& name) const;

 private:
  const Json& at(const std::string& name) const;
  template <class Read>
  auto read(const std::string& name, const Read& read) const;

  const Graph& graph_;
  const Node& node_;
};

// "model.py:17: conv1 (conv2d)": where to look.
std::string place_of(const Node& node);

}  // namespace hetpipe::graph
