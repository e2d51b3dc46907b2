// SPDX-License-Identifier: Apache-2.0
// Operators that put pieces of tensors side by side.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/index.h"
#include "runtime/model/graph/lower_parts.h"

namespace hetpipe::graph {
namespace {

struct Part {
  Tensor tensor;                    // bare
  std::vector<std::int64_t> start;  // where it goes, by dimension
};

// The parts as one tensor of the shape, `fill` elsewhere; stored as its largest part lies.
Tensor assembled(Importer& importer, const Node& node, const std::vector<Part>& parts,
                 const TensorShape& shape, double fill) {
  // The order of dimensions in memory: that of the first part of a layer, the samples first.
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<std::int64_t> stride(shape.size(), 0);
  for (const Part& part : parts) {
    if (part.tensor.leaves[0].kind != Leaf::Kind::layer) continue;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      for (const Atom& atom : part.tensor.leaves[0].dimensions[d]) {
        if (!atom.samples) stride[d] = std::max(stride[d], std::abs(atom.stride));
      }
    }
    break;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return at(stride, a) != 0 && at(stride, b) != 0 && at(stride, a) > at(stride, b);
  });
  Leaf leaf;
  leaf.dimensions.resize(shape.size());
  std::int64_t all = 1;
  std::vector<std::int64_t> place(shape.size(), 0);  // strides of the result
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    at(place, *d) = all;
    if (at(shape, *d).number != 1) {
      at(leaf.dimensions, *d).push_back({at(shape, *d).number, all, 0, false});
    }
    all *= at(shape, *d).number;
  }
  bool samples = false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!shape[d].samples) continue;
    samples = true;
    leaf.dimensions[d].insert(leaf.dimensions[d].begin(), {1, 0, 0, true});
  }
  if (!samples) leaf.dimensions[0].insert(leaf.dimensions[0].begin(), {1, 0, 0, true});
  Importer::Operands operands;
  Move move;
  move.fill = static_cast<float>(fill);
  std::vector<int> by_place = order;
  for (const int d : by_place) move.output.push_back(at(shape, d).number);
  for (const Part& part : parts) {
    TensorShape extents = part.tensor.shape;
    const std::optional<std::vector<Loop>> loops = common_loops(part.tensor.leaves, extents);
    if (!loops) throw Unsupported("parts that divide their extents in ways that do not fit");
    Move::Piece piece;
    std::vector<std::int64_t> strides, table_strides;
    // Strides of the loops of a dimension in the result: the innermost loop's is the dimension's.
    std::vector<std::int64_t> inner(shape.size(), 1), to(loops->size(), 0);
    for (std::size_t l = loops->size(); l-- > 0;) {
      const Loop& loop = (*loops)[l];
      if (loop.samples) continue;
      to[l] = at(place, loop.dimension) * at(inner, loop.dimension);
      at(inner, loop.dimension) *= loop.extent;
    }
    std::vector<std::size_t> sorted;
    for (std::size_t l = 0; l < loops->size(); ++l) {
      if (!(*loops)[l].samples) sorted.push_back(l);
    }
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](std::size_t a, std::size_t b) { return to[a] > to[b]; });
    for (const std::size_t l : sorted) {
      piece.extents.push_back((*loops)[l].extent);
      piece.to_strides.push_back(to[l]);
      strides.push_back((*loops)[l].strides[0]);
      table_strides.push_back((*loops)[l].table_strides[0]);
    }
    for (std::size_t d = 0; d < shape.size(); ++d) piece.to_offset += part.start[d] * place[d];
    piece.from = operands.add(importer, part.tensor.leaves[0], strides, table_strides);
    move.pieces.push_back(std::move(piece));
  }
  operands.need_an_input();
  move.parameters = operands.parameters;
  move.constants = operands.constants;
  leaf.layer = importer.add(node, move, operands.inputs, operands.state);
  return bare(leaf, shape);
}

Part part_at(Importer& importer, const Node& node, Tensor tensor, std::vector<std::int64_t> start,
             const TensorShape& shape) {
  if (!tensor.bare()) tensor = importer.materialize(node, tensor);
  // Where the result has samples and the part is the same for all, it is repeated.
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d].samples && !tensor.shape[d].samples) tensor.shape[d] = shape[d];
  }
  return {std::move(tensor), std::move(start)};
}

// [-b, a] of x = [a, b], and the like: parts that are +-1 times runs of one tensor at equal
// distances are a view of it times a constant (rotary embeddings). Nothing where they are not.
std::optional<Tensor> as_view(const std::vector<Tensor>& parts, int dim, const TensorShape& shape) {
  if (parts.size() < 2) return std::nullopt;
  std::vector<float> signs;
  std::vector<Leaf> leaves;
  for (const Tensor& part : parts) {
    const auto& steps = part.expression.steps;
    if (part.leaves.size() != 1 || part.leaves[0].kind != Leaf::Kind::layer ||
        !part.leaves[0].table.empty() || part.shape != parts[0].shape) {
      return std::nullopt;
    }
    const bool negative = steps.size() == 2 && steps[1].kind == Expression::Kind::apply &&
                          std::string(hetpipe::to_string(steps[1].op)) == "neg";
    if (!negative && steps.size() != 1) return std::nullopt;
    signs.push_back(negative ? -1.0f : 1.0f);
    leaves.push_back(part.leaves[0]);
  }
  const std::int64_t distance = leaves[1].offset - leaves[0].offset;
  if (distance == 0) return std::nullopt;
  for (std::size_t i = 1; i < leaves.size(); ++i) {
    if (!leaves[i].same_source(leaves[0]) || leaves[i].dimensions != leaves[0].dimensions ||
        leaves[i].offset - leaves[i - 1].offset != distance) {
      return std::nullopt;
    }
  }
  const auto count = static_cast<std::int64_t>(parts.size());
  Leaf view = leaves[0];
  Dimension& d = at(view.dimensions, dim);
  if (!d.empty() && d.front().samples) return std::nullopt;
  d.insert(d.begin(), Atom{count, distance, 0, false});
  const Tensor moved = bare(view, shape);
  if (std::all_of(signs.begin(), signs.end(), [](float s) { return s > 0; })) return moved;
  Leaf sign;
  sign.kind = Leaf::Kind::constant;
  sign.values = ConstantTable<float>(signs);
  sign.dimensions.resize(shape.size());
  at(sign.dimensions, dim) = {Atom{count, 1, 0, false}};
  const std::int64_t inner = at(parts[0].shape, dim).number;
  if (inner != 1) at(sign.dimensions, dim).push_back({inner, 0, 0, false});
  TensorShape sign_shape(shape.size());
  at(sign_shape, dim) = at(shape, dim);
  return apply("mul", {moved, bare(sign, sign_shape)}, shape);
}

void concatenate(Importer& importer, const Node& node) {
  const bool stacked = node.op == "stack";
  const TensorShape& shape = node.shapes[0];
  const int rank = static_cast<int>(shape.size());
  const int dim = dimension(importer.attributes(node).integer("dim", 0), rank);
  if (at(shape, dim).samples) throw Unsupported("it puts samples of several tensors in a row");
  std::vector<Tensor> tensors;
  for (const std::string& name : node.inputs.at("tensors")) {
    Tensor tensor = importer.value(name);
    if (stacked) insert_dimension(tensor, dim);
    if (tensor.rank() == 1 && tensor.shape[0] == Extent{0, false}) continue;  // PyTorch's empty one
    tensors.push_back(std::move(tensor));
  }
  importer.result(node, side_by_side(importer, node, tensors, dim, shape));
}

// Pads of the last dimensions, innermost first: (left, right, top, bottom, ...); negative ones cut.
void pad(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const std::string mode = attributes.text("mode", "constant");
  Tensor tensor = self_of(importer, node);
  const std::vector<std::int64_t> pads =
      attributes.integers(attributes.has("pad") ? "pad" : "padding");
  const double fill = attributes.number("value", 0);
  const TensorShape& shape = node.shapes[0];
  if (mode != "constant" || node.op == "reflection_pad1d" || node.op == "reflection_pad2d" ||
      node.op == "replication_pad1d" || node.op == "replication_pad2d") {
    const bool reflects = mode == "reflect" || node.op.starts_with("reflection");
    const bool wraps = mode == "circular";
    for (std::size_t i = 0; 2 * i < pads.size(); ++i) {
      const int dim = tensor.rank() - 1 - static_cast<int>(i);
      const std::int64_t extent = at(tensor.shape, dim).number;
      std::vector<std::int64_t> places;
      for (std::int64_t p = -pads[2 * i]; p < extent + pads[2 * i + 1]; ++p) {
        std::int64_t q = p;
        if (wraps) {
          q = (p % extent + extent) % extent;
        } else if (reflects) {
          if (q < 0) q = -q;
          if (q >= extent) q = 2 * (extent - 1) - q;
        } else {
          q = std::clamp<std::int64_t>(p, 0, extent - 1);
        }
        places.push_back(q);
      }
      if (!tensor.bare()) tensor = importer.materialize(node, tensor);
      tensor = changed(importer, node, tensor, [&](Tensor& t) { return gather(t, dim, places); });
      // One table is all that a view has.
      tensor = graph::bare(importer.lay_out(node, tensor, {}).leaf, tensor.shape);
    }
    return importer.result(node, tensor);
  }
  std::vector<std::int64_t> start(shape.size(), 0);
  for (std::size_t i = 0; 2 * i < pads.size(); ++i) {
    const int dim = tensor.rank() - 1 - static_cast<int>(i);
    const std::int64_t before = pads[2 * i], after = pads[2 * i + 1];
    const std::int64_t cut = std::max<std::int64_t>(-before, 0);
    const std::int64_t count =
        at(tensor.shape, dim).number - cut - std::max<std::int64_t>(-after, 0);
    if (count != at(tensor.shape, dim).number) {
      tensor =
          changed(importer, node, tensor, [&](Tensor& t) { return slice(t, dim, cut, 1, count); });
    }
    at(start, dim) = std::max<std::int64_t>(before, 0);
    if ((before != 0 || after != 0) && at(shape, dim).samples) throw Unsupported("it pads samples");
  }
  if (tensor.shape == shape) return importer.result(node, tensor);
  importer.result(node, assembled(importer, node, {part_at(importer, node, tensor, start, shape)},
                                  shape, fill));
}

void roll(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  Tensor tensor = self_of(importer, node);
  if (!tensor.bare()) tensor = importer.materialize(node, tensor);
  const std::vector<std::int64_t> shifts = attributes.integers("shifts");
  std::vector<Part> parts{{tensor, std::vector<std::int64_t>(tensor.shape.size(), 0)}};
  const std::vector<std::int64_t> dims = attributes.integers("dims", {});
  if (dims.empty()) throw Unsupported("a roll over all dimensions at once");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int dim = dimension(dims[i], tensor.rank());
    if (at(tensor.shape, dim).samples) throw Unsupported("it moves samples of a batch");
    const std::int64_t extent = at(tensor.shape, dim).number;
    const std::int64_t shift = (shifts[i] % extent + extent) % extent;
    if (shift == 0) continue;
    std::vector<Part> halves;
    for (const Part& part : parts) {
      for (const bool wrapped : {false, true}) {
        Part half = part;
        const std::int64_t from = wrapped ? extent - shift : 0;
        const std::int64_t count = wrapped ? shift : extent - shift;
        half.tensor = changed(importer, node, half.tensor,
                              [&](Tensor& t) { return slice(t, dim, from, 1, count); });
        at(half.start, dim) = wrapped ? 0 : shift;
        halves.push_back(std::move(half));
      }
    }
    parts = std::move(halves);
  }
  importer.result(node,
                  parts.size() == 1 ? tensor : assembled(importer, node, parts, node.shapes[0], 0));
}

}  // namespace

Tensor side_by_side(Importer& importer, const Node& node, const std::vector<Tensor>& tensors,
                    int dim, const TensorShape& shape) {
  if (const std::optional<Tensor> view = as_view(tensors, dim, shape)) return *view;
  std::vector<Part> parts;
  std::int64_t start = 0;
  for (const Tensor& tensor : tensors) {
    std::vector<std::int64_t> at_place(shape.size(), 0);
    at(at_place, dim) = start;
    start += at(tensor.shape, dim).number;
    parts.push_back(part_at(importer, node, tensor, std::move(at_place), shape));
  }
  return assembled(importer, node, parts, shape, 0);
}

std::vector<LoweringRow> piece_lowerings() {
  return {{"cat", concatenate},       {"stack", concatenate},     {"pad", pad},
          {"constant_pad_nd", pad},   {"reflection_pad1d", pad},  {"reflection_pad2d", pad},
          {"replication_pad1d", pad}, {"replication_pad2d", pad}, {"roll", roll}};
}

}  // namespace hetpipe::graph
