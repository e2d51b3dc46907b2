// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/importer.h"

// What several lower_*.cpp do alike.
namespace hetpipe::graph {

inline int dimension(std::int64_t given, int rank) {
  const std::int64_t d = given < 0 ? given + rank : given;
  if (d < 0 || d >= rank)
    throw Unsupported(format("dimension %lld", static_cast<long long>(given)));
  return static_cast<int>(d);
}

inline int dimension(Importer& importer, const Node& node, const char* name, int rank) {
  return dimension(importer.attributes(node).integer(name), rank);
}

inline Tensor self_of(Importer& importer, const Node& node) {
  return importer.input(node, node.has_input("self") ? "self" : "input");
}

// change(tensor), after its elements were put in order where strides alone cannot.
template <class Change>
Tensor changed(Importer& importer, const Node& node, Tensor tensor, const Change& change) {
  if (change(tensor)) return tensor;
  tensor = importer.in_shape_order(node, tensor);
  if (!change(tensor)) throw Unsupported("it mixes the samples of a batch");
  return tensor;
}

inline const State& weight_of(const Importer& importer, const Node& node) {
  return *importer.state_of(importer.parameter(node, "weight"));
}

// A sample's elements, whatever they are, as one row.
inline Shape all_of_sample(const Dense& dense) { return {1, dense.rows}; }

// Whole numbers that stand in the file.
inline std::vector<std::int64_t> constant_places(const Tensor& tensor, std::int64_t extent) {
  if (!tensor.bare() || !tensor.constant()) throw Unsupported("its indices are computed from data");
  const Leaf& leaf = tensor.leaves[0];
  const std::optional<std::vector<Loop>> loops = common_loops({leaf}, tensor.shape);
  if (!loops) throw Unsupported("its indices are in an order that is not supported");
  std::vector<std::int64_t> places{leaf.offset};
  for (const Loop& loop : *loops) {
    if (loop.samples) continue;
    std::vector<std::int64_t> more;
    for (const std::int64_t p : places) {
      for (std::int64_t i = 0; i < loop.extent; ++i) more.push_back(p + i * loop.strides[0]);
    }
    places = std::move(more);
  }
  for (std::int64_t& p : places) {
    p = static_cast<std::int64_t>(leaf.values[p]);
    if (p < 0) p += extent;
  }
  return places;
}

}  // namespace hetpipe::graph
