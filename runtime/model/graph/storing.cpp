// SPDX-License-Identifier: Apache-2.0
// How tensors come to lie in memory: layers that compute them, in the order that their readers
// want.
#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>

#include "base/index.h"
#include "runtime/model/graph/importer.h"

namespace hetpipe::graph {
namespace {

std::int64_t parts_product(const Layout& layout, std::size_t first, std::size_t end) {
  std::int64_t product = 1;
  for (std::size_t i = first; i < end; ++i) {
    const auto [d, part] = layout.order[i];
    product *= at(at(layout.dimensions, d), part).extent;
  }
  return product;
}

// Whether a tensor of this shape depends on the samples.
bool whole(const TensorShape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](const Extent& e) { return e.samples; });
}

// Whether the last parts of the layout are those of these dimensions, in this order.
bool ends_with(const Layout& layout, const std::vector<int>& inner) {
  std::size_t place = layout.order.size();
  for (auto d = inner.rbegin(); d != inner.rend(); ++d) {
    const Dimension& dimension = at(layout.dimensions, *d);
    for (std::size_t part = dimension.size(); part-- > 0;) {
      if (dimension[part].samples) return false;
      if (place == 0) return false;
      if (layout.order[--place] != std::pair<int, int>(*d, static_cast<int>(part))) return false;
    }
  }
  return true;
}

std::int64_t outer_rows(const Layout& layout, const std::vector<int>& inner) {
  std::size_t parts = 0;
  for (const int d : inner) parts += at(layout.dimensions, d).size();
  return parts_product(layout, 0, layout.order.size() - parts);
}

// Loops of one run for all leaves become one.
void merge_loops(std::vector<Loop>& loops) {
  std::vector<Loop> merged;
  for (const Loop& loop : loops) {
    bool fits = !merged.empty();
    for (std::size_t l = 0; fits && l < loop.strides.size(); ++l) {
      fits = merged.back().strides[l] == loop.strides[l] * loop.extent &&
             merged.back().table_strides[l] == loop.table_strides[l] * loop.extent;
    }
    if (fits) {
      merged.back().extent *= loop.extent;
      merged.back().strides = loop.strides;
      merged.back().table_strides = loop.table_strides;
    } else {
      merged.push_back(loop);
    }
  }
  loops = std::move(merged);
}

std::vector<std::int64_t> extents_of(const std::vector<Loop>& loops) {
  std::vector<std::int64_t> extents;
  for (const Loop& loop : loops) extents.push_back(loop.extent);
  return extents;
}

std::vector<std::int64_t> column(const std::vector<Loop>& loops,
                                 std::vector<std::int64_t> Loop::*which, std::size_t leaf) {
  std::vector<std::int64_t> strides;
  for (const Loop& loop : loops) strides.push_back((loop.*which)[leaf]);
  return strides;
}

// The leaf whose order the elements keep: of a layer's output, the one that varies along most.
std::size_t main_leaf(const Tensor& tensor, const std::vector<Loop>& loops) {
  std::size_t best = 0;
  double most = -1;
  for (std::size_t l = 0; l < tensor.leaves.size(); ++l) {
    double varies = tensor.leaves[l].kind == Leaf::Kind::layer ? 1 : 0.5;
    for (const Loop& loop : loops) {
      if (loop.samples || loop.strides[l] == 0) continue;
      varies *= static_cast<double>(loop.extent);
    }
    if (varies > most) {
      most = varies;
      best = l;
    }
  }
  return best;
}

}  // namespace

Leaf leaf_of(int layer, Layout layout) {
  Leaf leaf;
  leaf.layer = layer;
  std::int64_t stride = 1;
  for (auto it = layout.order.rbegin(); it != layout.order.rend(); ++it) {
    Atom& atom = at(at(layout.dimensions, it->first), it->second);
    atom.stride = stride;
    atom.table_stride = 0;
    stride *= atom.extent;
  }
  leaf.dimensions = std::move(layout.dimensions);
  return leaf;
}

std::int64_t Importer::elements_of(const Leaf& leaf) const {
  return (leaf.layer == kSamples ? model_.batch_shape(1) : model_.output_shape(leaf.layer, 1))
      .elements();
}

std::optional<Layout> Importer::dense(const Leaf& leaf) const {
  if (leaf.kind != Leaf::Kind::layer || leaf.offset != 0 || !leaf.table.empty())
    return std::nullopt;
  Layout layout{leaf.dimensions, {}};
  bool samples = false;
  for (std::size_t d = 0; d < leaf.dimensions.size(); ++d) {
    merge_atoms(layout.dimensions[d]);
    for (std::size_t part = 0; part < layout.dimensions[d].size(); ++part) {
      if (layout.dimensions[d][part].samples) {
        samples = true;
      } else {
        layout.order.emplace_back(static_cast<int>(d), static_cast<int>(part));
      }
    }
  }
  const auto atom = [&](const std::pair<int, int>& place) -> const Atom& {
    return at(at(layout.dimensions, place.first), place.second);
  };
  std::stable_sort(layout.order.begin(), layout.order.end(),
                   [&](const auto& a, const auto& b) { return atom(a).stride > atom(b).stride; });
  std::int64_t stride = 1;
  for (auto it = layout.order.rbegin(); it != layout.order.rend(); ++it) {
    if (atom(*it).stride != stride) return std::nullopt;
    stride *= atom(*it).extent;
  }
  if (!samples || stride != elements_of(leaf)) return std::nullopt;
  return layout;
}

Operand Importer::Operands::add(const Importer& importer, const Leaf& leaf,
                                std::vector<std::int64_t> strides,
                                std::vector<std::int64_t> table_strides) {
  Operand operand;
  operand.offset = leaf.offset;
  operand.strides = std::move(strides);
  if (!leaf.table.empty()) {
    operand.table = leaf.table;
    operand.table_strides = std::move(table_strides);
    if (leaf.table_offset != 0) {
      std::vector<std::int32_t> rest(leaf.table.data() + leaf.table_offset,
                                     leaf.table.data() + leaf.table.size());
      operand.table = ConstantTable<std::int32_t>(std::move(rest));
    }
  }
  const auto place = [](auto& list, const auto& value) {
    const auto found = std::find(list.begin(), list.end(), value);
    const auto index = static_cast<int>(found - list.begin());
    if (found == list.end()) list.push_back(value);
    return index;
  };
  switch (leaf.kind) {
    case Leaf::Kind::layer:
      operand.source = Source::input;
      operand.index = place(inputs, leaf.layer);
      break;
    case Leaf::Kind::constant:
      operand.source = Source::constant;
      operand.index = place(constants, leaf.values);
      break;
    case Leaf::Kind::parameter: {
      operand.source = Source::parameter;
      operand.index = place(state, leaf.name);
      if (at(operand.index) == parameters.size()) {
        const State* const of = importer.state_of(leaf.name);
        std::vector<std::int64_t> shape = of->shape;
        if (shape.empty()) shape.push_back(1);
        parameters.push_back(
            {.name = leaf.name, .shape = Shape(std::span<const std::int64_t>(shape))});
      }
      break;
    }
  }
  return operand;
}

void Importer::Operands::need_an_input() {
  if (inputs.empty()) inputs.push_back(kSamples);
}

int Importer::emit(const Node& node, const Tensor& tensor, const std::vector<Loop>& stored) {
  std::vector<Loop> loops = stored;
  merge_loops(loops);
  Operands operands;
  std::vector<Operand> of_leaves;
  for (std::size_t l = 0; l < tensor.leaves.size(); ++l) {
    of_leaves.push_back(operands.add(*this, tensor.leaves[l], column(loops, &Loop::strides, l),
                                     column(loops, &Loop::table_strides, l)));
  }
  operands.need_an_input();
  const std::vector<std::int64_t> extents = extents_of(loops);
  // Layers of their own for what most networks are full of.
  const auto plain = [&](const Operand& o) {
    return o.source == Source::input && o.offset == 0 && o.table.empty() && loops.size() <= 1 &&
           (loops.empty() || o.strides[0] == 1) &&
           elements_of(tensor.leaves[at(&o - of_leaves.data())]) ==
               (loops.empty() ? 1 : loops[0].extent);
  };
  const auto& steps = tensor.expression.steps;
  const bool all_plain = std::all_of(of_leaves.begin(), of_leaves.end(), plain);
  if (all_plain && steps.size() == 2 && of_leaves.size() == 1 &&
      steps[1].kind == Expression::Kind::apply && to_string(steps[1].op) == std::string("relu")) {
    return add(node, Relu{}, operands.inputs, {});
  }
  if (tensor.bare()) {
    Move move;
    move.output = extents;
    Move::Piece piece{extents, of_leaves[0], 0, {}};
    std::int64_t stride = 1;
    for (std::size_t i = extents.size(); i-- > 0;) {
      piece.to_strides.insert(piece.to_strides.begin(), stride);
      stride *= extents[i];
    }
    move.pieces.push_back(std::move(piece));
    move.parameters = operands.parameters;
    move.constants = operands.constants;
    return add(node, move, operands.inputs, operands.state);
  }
  return add(
      node,
      Pointwise{tensor.expression, of_leaves, extents, operands.parameters, operands.constants},
      operands.inputs, operands.state);
}

Leaf Importer::store(const Node& node, const Tensor& given, const std::vector<int>& inner,
                     Broadcasts broadcasts) {
  Tensor tensor = given;
  std::optional<std::vector<Loop>> loops = common_loops(tensor.leaves, tensor.shape);
  if (!loops) {
    // Their parts do not fit: each by itself in the order of its shape.
    for (Leaf& leaf : tensor.leaves) {
      if (leaf.kind != Leaf::Kind::layer) continue;
      TensorShape shape;
      for (const Dimension& dimension : leaf.dimensions) shape.push_back(extent_of(dimension));
      leaf = in_shape_order(node, graph::bare(leaf, shape)).leaves[0];
    }
    loops = common_loops(tensor.leaves, tensor.shape);
    if (!loops) throw Unsupported("its inputs divide their extents in ways that do not fit");
  }
  if (whole(tensor.shape) && tensor.has_layer() &&
      std::none_of(loops->begin(), loops->end(), [](const Loop& l) { return l.samples; })) {
    throw Unsupported("it mixes the samples of a batch");
  }
  // The result: parts of its dimensions, and the order in which they are stored.
  Layout layout;
  layout.dimensions.resize(tensor.shape.size());
  std::vector<std::pair<int, int>> places;  // of each loop
  for (const Loop& loop : *loops) {
    Dimension& dimension = at(layout.dimensions, loop.dimension);
    places.emplace_back(loop.dimension, static_cast<int>(dimension.size()));
    dimension.push_back({loop.samples ? 1 : loop.extent, 0, 0, loop.samples});
  }
  if (std::none_of(loops->begin(), loops->end(), [](const Loop& l) { return l.samples; })) {
    // The same for all samples: stored for each of them.
    ensure(!layout.dimensions.empty(), "a tensor without samples has a dimension");
    layout.dimensions[0].insert(layout.dimensions[0].begin(), {1, 0, 0, true});
    for (auto& place : places) place.second += place.first == 0 ? 1 : 0;
  }
  const std::size_t main = tensor.leaves.empty() ? 0 : main_leaf(tensor, *loops);
  std::vector<std::size_t> order;  // of loops
  for (std::size_t l = 0; l < loops->size(); ++l) {
    const Loop& loop = (*loops)[l];
    if (loop.samples || std::find(inner.begin(), inner.end(), loop.dimension) != inner.end()) {
      continue;
    }
    const auto still = [](std::int64_t stride) { return stride == 0; };
    if (broadcasts == Broadcasts::kept &&
        std::all_of(loop.strides.begin(), loop.strides.end(), still) &&
        std::all_of(loop.table_strides.begin(), loop.table_strides.end(), still)) {
      continue;  // its stride stays 0
    }
    // Before the first that lies further in, among those that the main leaf varies along.
    std::size_t place = order.size();
    if (!tensor.leaves.empty() && loop.strides[main] != 0) {
      for (std::size_t o = order.size(); o-- > 0;) {
        const std::int64_t other = (*loops)[order[o]].strides[main];
        if (other != 0 && std::abs(other) < std::abs(loop.strides[main])) place = o;
      }
    }
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), l);
  }
  for (const int d : inner) {
    for (std::size_t l = 0; l < loops->size(); ++l) {
      if ((*loops)[l].dimension == d && !(*loops)[l].samples) order.push_back(l);
    }
  }
  std::vector<Loop> stored;
  for (const std::size_t l : order) {
    stored.push_back((*loops)[l]);
    layout.order.push_back(places[l]);
  }
  const int layer = emit(tensor.origin != nullptr ? *tensor.origin : node, tensor, stored);
  return leaf_of(layer, layout);
}

Dense Importer::lay_out(const Node& node, const Tensor& tensor, const std::vector<int>& inner) {
  if (tensor.bare()) {
    Leaf leaf = tensor.leaves[0];
    if (!whole(tensor.shape) && !leaf.dimensions.empty()) {
      leaf.dimensions[0].insert(leaf.dimensions[0].begin(), {1, 0, 0, true});
    }
    const std::optional<Layout> layout = dense(leaf);
    if (layout && ends_with(*layout, inner)) {
      leaf.dimensions = layout->dimensions;
      return {leaf, *layout, outer_rows(*layout, inner)};
    }
  }
  const Leaf leaf = store(node, tensor, inner);
  const std::optional<Layout> layout = dense(leaf);
  ensure(layout.has_value(), "what was stored is dense");
  if (!ends_with(*layout, inner)) throw Unsupported("it mixes the samples of a batch");
  return {leaf, *layout, outer_rows(*layout, inner)};
}

Tensor Importer::materialize(const Node& node, const Tensor& tensor) {
  if (tensor.bare() && tensor.leaves[0].kind == Leaf::Kind::layer) return tensor;
  return own_copies(graph::bare(store(node, tensor, {}, Broadcasts::kept), tensor.shape));
}

Tensor Importer::in_shape_order(const Node& node, const Tensor& tensor) {
  std::vector<int> all;
  bool first = true;
  for (int d = 0; d < tensor.rank(); ++d) {
    if (!at(tensor.shape, d).samples) {
      all.push_back(d);
    } else if (!first || at(tensor.shape, d).number != 1) {
      // The samples come first in memory, wherever they stand in the shape.
      all.push_back(d);
    }
    first = false;
  }
  return own_copies(graph::bare(store(node, tensor, all), tensor.shape));
}

Tensor Importer::output(int layer, const Dense& like, const std::vector<int>& inner,
                        const std::vector<std::int64_t>& extents, const TensorShape& shape) const {
  Layout layout;
  layout.dimensions = like.layout.dimensions;
  layout.dimensions.resize(shape.size());
  std::size_t kept = like.layout.order.size();
  for (const int d : inner) {
    if (at(d) < like.layout.dimensions.size()) kept -= at(like.layout.dimensions, d).size();
  }
  layout.order.assign(like.layout.order.begin(),
                      like.layout.order.begin() + static_cast<std::ptrdiff_t>(kept));
  for (std::size_t i = 0; i < inner.size(); ++i) {
    Dimension& dimension = at(layout.dimensions, inner[i]);
    dimension.clear();
    if (extents[i] == 1) continue;
    dimension.push_back({extents[i], 0, 0, false});
    layout.order.emplace_back(inner[i], 0);
  }
  return graph::bare(leaf_of(layer, layout), shape);
}

}  // namespace hetpipe::graph
