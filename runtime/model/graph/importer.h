// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "runtime/model/graph/graph.h"
#include "runtime/model/graph/tensor.h"
#include "runtime/model/model.h"

// From an exported graph to layers: what the functions of lower_*.cpp, one for each operator,
// share.
namespace hetpipe::graph {

// An operator, or arguments of one, that no layer computes.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// How a dense tensor lies: the parts of its dimensions, and their order in memory, outermost first
// (the samples before all, not listed).
struct Layout {
  std::vector<Dimension> dimensions;
  std::vector<std::pair<int, int>> order;  // dimension, part
};

// The output of a layer, with the strides of a tensor that lies so.
Leaf leaf_of(int layer, Layout layout);

// A dense leaf as a layer reads it: `rows` is the product of all parts but the samples and those of
// the inner dimensions.
struct Dense {
  Leaf leaf;
  Layout layout;
  std::int64_t rows = 1;
};

class Importer {
 public:
  Importer(const Graph& graph, Model& model) : graph_(graph), model_(model) {}

  // Lowers all nodes that `wanted` values need. UserError listing every node that is not supported.
  void lower(const std::vector<std::string>& wanted);
  Tensor value(const std::string& name) const;  // "x", "x:1"

  // --- for the functions of lower_*.cpp ---
  const Graph& graph() const { return graph_; }
  const Model& model() const { return model_; }
  Attributes attributes(const Node& node) const { return Attributes(graph_, node); }
  // The input of this argument, or its number where it is an attribute.
  Tensor operand(const Node& node, const std::string& argument) const;
  Tensor input(const Node& node, const std::string& argument) const {
    return value(node.input(argument));
  }
  // The value of the current node; of several outputs, output `i`.
  void result(const Node& node, Tensor tensor, std::size_t i = 0);

  // The tensor as elements in memory, the parts of the dimensions `inner` innermost in this order;
  // the others as they lie. It may be there already.
  Dense lay_out(const Node& node, const Tensor& tensor, const std::vector<int>& inner);
  // A bare tensor of the same elements, in whatever order.
  Tensor materialize(const Node& node, const Tensor& tensor);
  // Elements in the order of the shape, where strides cannot say what follows.
  Tensor in_shape_order(const Node& node, const Tensor& tensor);

  // Appends a layer for `node` that reads dense leaves in these shapes of one sample. Returns its
  // number. `state`: names in the state_dict of its parameters and then its statistics.
  int add(const Node& node, LayerSpec spec, const std::vector<Dense>& inputs,
          const std::vector<Shape>& views, const std::vector<std::string>& state = {});
  // Appends a layer of the algebra, of leaves that it reads through strides.
  int add(const Node& node, LayerSpec spec, std::vector<int> inputs,
          const std::vector<std::string>& state);
  // The output of a layer: the given one's outer parts, then `inner` dimensions of these extents,
  // stored in this order.
  Tensor output(int layer, const Dense& like, const std::vector<int>& inner,
                const std::vector<std::int64_t>& extents, const TensorShape& shape) const;

  const State* state_of(const std::string& name) const;  // null: no tensor of the state_dict
  // The name of a parameter, trained or frozen, that the node reads as this argument; Unsupported
  // for a tensor that is none.
  std::string parameter(const Node& node, const std::string& argument) const;

  // Those of the arguments that the node has.
  std::vector<std::string> parameters(const Node& node,
                                      std::initializer_list<const char*> arguments) const;

  // Reads leaves through strides: for the layers of the algebra.
  struct Operands {
    std::vector<int> inputs;
    std::vector<ParameterShape> parameters;
    std::vector<ConstantTable<float>> constants;
    std::vector<std::string> state;  // names of the parameters

    // strides: one for each loop of the layer.
    Operand add(const Importer& importer, const Leaf& leaf, std::vector<std::int64_t> strides,
                std::vector<std::int64_t> table_strides);
    void need_an_input();  // a layer has at least one, which tells the number of samples
  };

 private:
  // Places along which nothing changes are not stored, and stay a broadcast.
  enum class Broadcasts { stored, kept };
  int append(const Node& node, ModelLayer layer, const std::vector<std::string>& state);
  Leaf store(const Node& node, const Tensor& tensor, const std::vector<int>& inner,
             Broadcasts broadcasts = Broadcasts::stored);
  int emit(const Node& node, const Tensor& tensor, const std::vector<Loop>& stored);
  std::string layer_name(const Node& node, const LayerSpec& spec);
  std::int64_t elements_of(const Leaf& leaf) const;  // of a sample, of a layer's output
  std::optional<Layout> dense(const Leaf& leaf) const;
  void lower_one(const Node& node);
  Tensor leaf_value(const std::string& name) const;

  const Graph& graph_;
  Model& model_;
  std::map<std::string, std::vector<Tensor>> values_;
  std::map<std::string, int> uses_;
  std::map<std::string, std::pair<int, std::string>> owners_;  // of parameters: layer, its name
  std::set<std::string> names_;                                // of layers
};

// Tensors side by side along a dimension, as a tensor of this shape.
Tensor side_by_side(Importer& importer, const Node& node, const std::vector<Tensor>& tensors,
                    int dim, const TensorShape& shape);

// (..., rows, inner) x (..., inner, columns), broadcast over what is before: of this shape.
Tensor matrix_product(Importer& importer, const Node& node, Tensor a, Tensor b,
                      const TensorShape& shape);

using Lowering = void (*)(Importer&, const Node&);
struct LoweringRow {
  const char* op;
  Lowering lower;
};
// The operators that each file lowers.
std::vector<LoweringRow> pointwise_lowerings();
std::vector<LoweringRow> view_lowerings();
std::vector<LoweringRow> piece_lowerings();
std::vector<LoweringRow> image_lowerings();
std::vector<LoweringRow> row_lowerings();
std::vector<LoweringRow> sequence_lowerings();
std::vector<LoweringRow> norm_lowerings();
std::vector<LoweringRow> product_lowerings();
std::vector<LoweringRow> reduction_lowerings();
const std::map<std::string, Lowering>& lowerings();

}  // namespace hetpipe::graph
