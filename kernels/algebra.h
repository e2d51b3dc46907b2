// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/expression.h"
#include "kernels/shape.h"

// A small algebra of layers for models that come from elsewhere: elementwise expressions, movement,
// reductions and products, over tensors seen through strides. What a view, a permutation, a slice
// or a broadcast would copy is a matter of strides here.
//
// All tensors lie sample by sample, each sample's elements together. Loops run inside of a sample;
// the samples are one loop more, outside of all, that no layer states.
namespace hetpipe {

// How initial values are drawn: uniform in +-bound (He's weights: bound = sqrt(6 / fan_in)); normal
// with mean 0 and deviation `bound`; one; zero.
enum class Initial { zero, one, uniform, normal };
struct ParameterShape {
  std::string name;  // "weight", "bias", "scale", "shift"
  Shape shape;
  Initial initial = Initial::zero;
  float bound = 0;
  bool operator==(const ParameterShape&) const = default;
};

// Numbers or places that a layer is made with (masks, tables); never changed, shared by copies.
template <class T>
class ConstantTable {
 public:
  ConstantTable() = default;
  explicit ConstantTable(std::vector<T> values)
      : values_(std::make_shared<const std::vector<T>>(std::move(values))) {}
  bool empty() const { return values_ == nullptr || values_->empty(); }
  std::int64_t size() const { return empty() ? 0 : static_cast<std::int64_t>(values_->size()); }
  const T* data() const { return empty() ? nullptr : values_->data(); }
  T operator[](std::int64_t i) const { return (*values_)[static_cast<std::size_t>(i)]; }
  bool operator==(const ConstantTable& other) const {
    return values_ == other.values_ ||
           (size() == other.size() && (empty() || *values_ == *other.values_));
  }

 private:
  std::shared_ptr<const std::vector<T>> values_;
};

// inputs: of the layer, element by sample; parameters: of the layer, the same for all samples;
// constants: of the layer, the same for all samples.
enum class Source : std::uint8_t { input, parameter, constant };

// A tensor read through strides. At the loops i_0, i_1, ... it is the element
//   offset + sum i_j * strides[j] + (table empty ? 0 : table[sum i_j * table_strides[j]])
// of a sample's elements (of all elements of a parameter or constant). A stride of 0 broadcasts.
struct Operand {
  Source source = Source::input;
  int index = 0;  // of the layer's inputs, parameters or constants
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;       // one for each loop
  ConstantTable<std::int32_t> table = {};  // a gather by constant places
  std::vector<std::int64_t> table_strides = {};
  bool operator==(const Operand&) const = default;
};

// (N, extents...): the expression of the operands, element by element.
struct Pointwise {
  Expression expression;
  std::vector<Operand> operands;  // the expression's variables
  std::vector<std::int64_t> extents;
  std::vector<ParameterShape> parameters = {};
  std::vector<ConstantTable<float>> constants = {};
  bool operator==(const Pointwise&) const = default;
};

// What the backward of a Pointwise layer reads: of its operands, those that occur in a derivative.
struct BackwardNeeds {
  std::vector<bool> operands;
  bool output = false;
};
BackwardNeeds backward_needs(const Pointwise& layer);

// (N, output...): pieces of other tensors, copied to places that do not overlap; `fill` elsewhere.
// Permutations, slices, concatenations, paddings, rolls, repetitions, and gathers by constant
// places.
struct Move {
  struct Piece {
    std::vector<std::int64_t> extents;
    Operand from;
    std::int64_t to_offset = 0;  // inside of a sample's output
    std::vector<std::int64_t> to_strides;
    bool operator==(const Piece&) const = default;
  };
  std::vector<std::int64_t> output;
  std::vector<Piece> pieces;
  float fill = 0;
  std::vector<ParameterShape> parameters = {};
  std::vector<ConstantTable<float>> constants = {};
  bool operator==(const Move&) const = default;
};

// (N, kept...): of an operand over the loops kept..., reduced... (the last ones).
struct Reduce {
  // maximum, minimum: the gradient goes to all elements that have the value, in equal parts;
  // first_maximum, first_minimum: to the first of them (PyTorch's amax and max along a dimension).
  enum class Kind : std::uint8_t { sum, mean, maximum, minimum, first_maximum, first_minimum };
  Kind kind = Kind::sum;
  Operand from;  // an input
  std::vector<std::int64_t> kept;
  std::vector<std::int64_t> reduced;
  bool operator==(const Reduce&) const = default;
};

// scale * a b: a over the loops batch..., rows, inner; b over batch..., inner, columns. The output
// lies in the order (N, batch[order[0]], ...), where `order` is a permutation of the loops
// batch..., rows, columns; empty: as they are.
struct Product {
  Operand a, b;
  std::vector<std::int64_t> batch;  // inside of a sample
  std::int64_t rows = 1, columns = 1, inner = 1;
  float scale = 1;
  std::vector<int> order = {};
  std::vector<ParameterShape> parameters = {};
  std::vector<ConstantTable<float>> constants = {};
  bool operator==(const Product&) const = default;
};

// Over the last extent of (N, F) or (N, rows, F): e^x / sum e^x, or its logarithm.
struct Softmax {
  bool logarithm = false;
  bool operator==(const Softmax&) const = default;
};

// Sums up to and with each place along the second extent from the end: (N, T, F), or along T of
// (N, T).
struct CumulativeSum {
  bool operator==(const CumulativeSum&) const = default;
};

// Scaled dot-product attention (Vaswani et al. 2017): of each head, softmax(scale * q k^T + mask) v
// -> (N, queries, heads, value_features). Query head h uses key and value head
// h / (heads / kv_heads). Causal: query i sees keys 0 ... i. Dropout draws on the softmax: element
// (head, query, key) of a sample as Dropout's, counted in this order.
struct Attention {
  int heads = 1, kv_heads = 1;
  std::int64_t queries = 1, keys = 1, features = 1, value_features = 1;
  Operand query;                     // inputs, over heads, queries, features
  Operand key;                       // over kv_heads, keys, features
  Operand value;                     // over kv_heads, keys, value_features
  std::optional<Operand> mask = {};  // over heads, queries, keys; -inf hides
  bool causal = false;
  float scale = 1;
  float dropout = 0;
  std::vector<ParameterShape> parameters = {};  // the mask may be one
  std::vector<ConstantTable<float>> constants = {};
  bool operator==(const Attention&) const = default;
};

// Every field, tables by their hashes: what a model's fingerprint is made of.
std::string full_text(const Pointwise& layer);
std::string full_text(const Move& layer);
std::string full_text(const Reduce& layer);
std::string full_text(const Product& layer);
std::string full_text(const Softmax& layer);
std::string full_text(const CumulativeSum& layer);
std::string full_text(const Attention& layer);

}  // namespace hetpipe
