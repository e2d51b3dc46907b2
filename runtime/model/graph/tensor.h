// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/algebra.h"
#include "runtime/model/graph/graph.h"

// A tensor of an exported network while it becomes layers: an elementwise expression of tensors
// that exist, each seen through strides. Views, permutations, slices and broadcasts change strides
// alone; elementwise operators grow the expression; both cost nothing until a layer needs the
// elements in an order of its own.
namespace hetpipe::graph {

// A part of an extent: places i in [0, extent), stride elements apart. Of `samples` the extent is
// their number, and the stride is implied: each sample's elements lie together.
struct Atom {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
  std::int64_t table_stride = 0;
  bool samples = false;
  bool operator==(const Atom&) const = default;
};
using Dimension = std::vector<Atom>;  // outermost first; empty: an extent of 1

// A tensor that exists, seen in some order.
struct Leaf {
  enum class Kind { layer, parameter, constant };
  Kind kind = Kind::layer;
  int layer = 0;                     // its output; kSamples: the samples
  std::string name;                  // of a parameter, in the state_dict
  ConstantTable<float> values = {};  // of a constant
  std::int64_t offset = 0;
  ConstantTable<std::int32_t> table = {};  // a gather by constant places
  std::int64_t table_offset = 0;
  std::vector<Dimension> dimensions;

  bool same_source(const Leaf& other) const;
};

struct Tensor {
  Expression expression;
  std::vector<Leaf> leaves;  // its variables; all of the same dimensions, those of 1 broadcast
  TensorShape shape;
  const Node* origin = nullptr;  // whose value it is: gives its name to a layer that computes it

  bool bare() const { return expression.steps.size() == 1 && leaves.size() == 1; }
  bool constant() const;   // no leaf is a layer or a parameter
  bool has_layer() const;  // some leaf is a layer's output
  int rank() const { return static_cast<int>(shape.size()); }
};
Tensor bare(Leaf leaf, TensorShape shape);
// What does not depend on the samples is computed for each of them, and each reads its own copy: no
// part of its dimensions are the samples.
Tensor own_copies(Tensor tensor);

// Dimensions of a tensor that lies in order: of a sample's elements, or of all (no samples).
// Nothing where the samples are not the first part of it.
std::vector<Dimension> in_order(const TensorShape& shape);

Extent extent_of(const Dimension& dimension);

// Adjacent parts that are one run become one; parts of extent 1 vanish.
void merge_atoms(Dimension& dimension);

// Each returns false, and leaves the tensor as it was, where strides cannot say it: the elements
// have to be put in order first. `dim` counts from 0.
bool reshape(Tensor& tensor, const TensorShape& shape);
bool slice(Tensor& tensor, int dim, std::int64_t start, std::int64_t step, std::int64_t count);
void permute(Tensor& tensor, const std::vector<int>& order);
void insert_dimension(Tensor& tensor, int dim);
void remove_dimension(Tensor& tensor, int dim);         // of extent 1
void expand(Tensor& tensor, const TensorShape& shape);  // extents of 1, and new ones in front
// The places of `dim` in the order of a table.
bool gather(Tensor& tensor, int dim, const std::vector<std::int64_t>& places);

// The same loops for all leaves of one shape: the parts of each dimension, outermost first, and
// each leaf's strides along them.
struct Loop {
  int dimension = 0;
  std::int64_t extent = 1;
  bool samples = false;
  std::vector<std::int64_t> strides;        // by leaf
  std::vector<std::int64_t> table_strides;  // by leaf
};
// Nothing where two leaves divide an extent in ways that do not fit.
std::optional<std::vector<Loop>> common_loops(const std::vector<Leaf>& leaves,
                                              const TensorShape& shape);

// An elementwise operator of tensors, which are broadcast to `shape`. Steps of the arguments are
// taken over; equal leaves become one.
Tensor apply(std::string_view op, const std::vector<Tensor>& arguments, const TensorShape& shape);
Tensor number(double value);  // of shape ()
// The elements of an expression of constants, in order.
Tensor evaluated(const Tensor& tensor);
// With the expression of `build`, which is given the steps of the arguments.
Tensor combine(const std::vector<Tensor>& arguments, const TensorShape& shape,
               const std::function<int(Expression&, const std::vector<int>&)>& build);

}  // namespace hetpipe::graph
