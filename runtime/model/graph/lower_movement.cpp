// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "base/text.h"
#include "runtime/model/graph/importer.h"

// Operators that move elements: most change strides alone.
namespace hetpipe::graph {
namespace {

int dimension(std::int64_t given, int rank) {
  const std::int64_t d = given < 0 ? given + rank : given;
  if (d < 0 || d >= rank)
    throw Unsupported(format("dimension %lld", static_cast<long long>(given)));
  return static_cast<int>(d);
}

int dimension(Importer& importer, const Node& node, const char* name, int rank) {
  return dimension(importer.attributes(node).integer(name), rank);
}

Tensor self_of(Importer& importer, const Node& node) {
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

void reshape_to(Importer& importer, const Node& node) {
  importer.result(node, changed(importer, node, self_of(importer, node),
                                [&](Tensor& t) { return reshape(t, node.shapes[0]); }));
}

void permute_by(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  std::vector<int> order;
  for (const std::int64_t d : importer.attributes(node).integers("dims")) {
    order.push_back(dimension(d, tensor.rank()));
  }
  permute(tensor, order);
  importer.result(node, tensor);
}

void transpose(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  std::vector<int> order(at(tensor.rank()));
  std::iota(order.begin(), order.end(), 0);
  if (node.op == "t" || node.op == "numpy_T" || node.op == "mT") {
    if (tensor.rank() == 2) std::swap(order[0], order[1]);
  } else {
    std::swap(at(order, dimension(importer, node, "dim0", tensor.rank())),
              at(order, dimension(importer, node, "dim1", tensor.rank())));
  }
  permute(tensor, order);
  importer.result(node, tensor);
}

void move_dimensions(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  const Attributes attributes = importer.attributes(node);
  const auto from = attributes.integers("source"), to = attributes.integers("destination");
  std::vector<int> order(at(tensor.rank()), -1);
  std::vector<bool> taken(at(tensor.rank()), false);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const int source = dimension(from[i], tensor.rank());
    at(order, dimension(to[i], tensor.rank())) = source;
    taken[at(source)] = true;
  }
  int next = 0;
  for (int& o : order) {
    if (o >= 0) continue;
    while (taken[at(next)]) ++next;
    o = next++;
  }
  permute(tensor, order);
  importer.result(node, tensor);
}

void expand_to(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  expand(tensor, node.shapes[0]);
  importer.result(node, tensor);
}

void same(Importer& importer, const Node& node) { importer.result(node, self_of(importer, node)); }

void slice_of(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  Tensor tensor = self_of(importer, node);
  const int dim = dimension(attributes.integer("dim", 0), tensor.rank());
  const Extent all = at(tensor.shape, dim), kept = at(node.shapes[0], dim);
  if (all == kept) return importer.result(node, tensor);
  if (all.samples) throw Unsupported("it takes some samples of a batch");
  std::int64_t start = attributes.integer("start", 0);
  if (start < 0) start += all.number;
  start = std::clamp<std::int64_t>(start, 0, all.number);
  const std::int64_t step = attributes.integer("step", 1);
  importer.result(node, changed(importer, node, tensor, [&](Tensor& t) {
                    return slice(t, dim, start, step, kept.number);
                  }));
}

void narrow(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  const int dim = dimension(importer, node, "dim", tensor.rank());
  if (at(tensor.shape, dim).samples) throw Unsupported("it takes some samples of a batch");
  std::int64_t start = importer.attributes(node).integer("start");
  if (start < 0) start += at(tensor.shape, dim).number;
  importer.result(node, changed(importer, node, tensor, [&](Tensor& t) {
                    return slice(t, dim, start, 1, at(node.shapes[0], dim).number);
                  }));
}

Tensor selected(Importer& importer, const Node& node, const Tensor& tensor, int dim,
                std::int64_t index) {
  if (at(tensor.shape, dim).samples) throw Unsupported("it takes one sample of a batch");
  if (index < 0) index += at(tensor.shape, dim).number;
  Tensor one =
      changed(importer, node, tensor, [&](Tensor& t) { return slice(t, dim, index, 1, 1); });
  remove_dimension(one, dim);
  return one;
}

void select_of(Importer& importer, const Node& node) {
  const Tensor tensor = self_of(importer, node);
  const int dim = dimension(importer, node, "dim", tensor.rank());
  importer.result(
      node, selected(importer, node, tensor, dim, importer.attributes(node).integer("index")));
}

void unbind(Importer& importer, const Node& node) {
  const Tensor tensor = self_of(importer, node);
  const int dim = dimension(importer.attributes(node).integer("dim", 0), tensor.rank());
  for (std::size_t i = 0; i < node.shapes.size(); ++i) {
    importer.result(node, selected(importer, node, tensor, dim, static_cast<std::int64_t>(i)), i);
  }
}

void split(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  if (!tensor.bare()) tensor = importer.materialize(node, tensor);
  const int dim = dimension(importer.attributes(node).integer("dim", 0), tensor.rank());
  if (at(tensor.shape, dim).samples) throw Unsupported("it takes some samples of a batch");
  std::int64_t start = 0;
  for (std::size_t i = 0; i < node.shapes.size(); ++i) {
    const std::int64_t count = at(node.shapes[i], dim).number;
    importer.result(
        node,
        changed(importer, node, tensor, [&](Tensor& t) { return slice(t, dim, start, 1, count); }),
        i);
    start += count;
  }
}

void flip(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  for (const std::int64_t d : importer.attributes(node).integers("dims")) {
    const int dim = dimension(d, tensor.rank());
    const std::int64_t extent = at(tensor.shape, dim).number;
    tensor = changed(importer, node, tensor,
                     [&](Tensor& t) { return slice(t, dim, extent - 1, -1, extent); });
  }
  importer.result(node, tensor);
}

// --- pieces of tensors side by side ---

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

void repeat(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  std::vector<std::int64_t> repeats = importer.attributes(node).integers("repeats");
  while (at(tensor.rank()) < repeats.size()) insert_dimension(tensor, 0);
  // Each dimension as (repetitions, places), of which the first broadcasts.
  TensorShape wide, all;
  for (std::size_t d = 0; d < repeats.size(); ++d) {
    const int place = static_cast<int>(wide.size());
    insert_dimension(tensor, place);
    const bool of_samples = node.shapes[0][d].samples && !tensor.shape[at(place + 1)].samples;
    wide.push_back(of_samples ? Extent{1, true} : Extent{repeats[d], false});
    wide.push_back(tensor.shape[at(place + 1)]);
  }
  expand(tensor, wide);
  importer.result(
      node, changed(importer, node, tensor, [&](Tensor& t) { return reshape(t, node.shapes[0]); }));
}

void repeat_interleave(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  const int dim = dimension(importer, node, "dim", tensor.rank());
  const std::int64_t repeats = importer.attributes(node).integer("repeats");
  insert_dimension(tensor, dim + 1);
  TensorShape wide = tensor.shape;
  at(wide, dim + 1) = {repeats, false};
  expand(tensor, wide);
  importer.result(
      node, changed(importer, node, tensor, [&](Tensor& t) { return reshape(t, node.shapes[0]); }));
}

// Whole numbers that stand in the file.
std::vector<std::int64_t> constant_places(const Tensor& tensor, std::int64_t extent) {
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

// Gathers along one dimension by constant places, which become as many dimensions as they have.
Tensor gathered(Importer& importer, const Node& node, Tensor tensor, int dim,
                const Tensor& indices) {
  if (at(tensor.shape, dim).samples) throw Unsupported("it takes some samples of a batch");
  const std::vector<std::int64_t> places = constant_places(indices, at(tensor.shape, dim).number);
  tensor = changed(importer, node, tensor, [&](Tensor& t) { return gather(t, dim, places); });
  TensorShape shape = tensor.shape;
  shape.erase(shape.begin() + dim);
  shape.insert(shape.begin() + dim, indices.shape.begin(), indices.shape.end());
  if (!reshape(tensor, shape)) throw Unsupported("indices of several dimensions");
  return tensor;
}

void index_select(Importer& importer, const Node& node) {
  const Tensor tensor = self_of(importer, node);
  const int dim = dimension(importer, node, "dim", tensor.rank());
  importer.result(node, gathered(importer, node, tensor, dim, importer.input(node, "index")));
}

// x[i, j]: constant places along dimensions side by side.
void index(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  const std::vector<std::string>& names = node.inputs.at("indices");
  // Which dimensions they stand for: all in a row from the first on, or as stated.
  std::vector<std::int64_t> dims;
  const Attributes attributes = importer.attributes(node);
  if (attributes.has("indices_dims")) {
    dims = attributes.integers("indices_dims");
  } else {
    for (std::size_t i = 0; i < names.size(); ++i) dims.push_back(static_cast<std::int64_t>(i));
  }
  if (names.size() == 1) {
    return importer.result(node, gathered(importer, node, tensor, static_cast<int>(dims[0]),
                                          importer.value(names[0])));
  }
  throw Unsupported("several index tensors");
}

void gather_along(Importer& importer, const Node& node) {
  throw Unsupported(importer.input(node, "index").constant()
                        ? "a gather whose places differ along other dimensions"
                        : "its indices are computed from data");
}

// (N, C*r*r, H, W) <-> (N, C, H*r, W*r)
void pixel_shuffle(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  const TensorShape in = tensor.shape, out = node.shapes[0];
  const bool up = node.op == "pixel_shuffle";
  const std::int64_t r =
      importer.attributes(node).integer(up ? "upscale_factor" : "downscale_factor");
  const Extent factor{r, false};
  TensorShape wide;
  std::vector<int> order;
  if (up) {
    wide = {in[0], {out[1].number, false}, factor, factor, in[2], in[3]};
    order = {0, 1, 4, 2, 5, 3};
  } else {
    wide = {in[0], in[1], {out[2].number, false}, factor, {out[3].number, false}, factor};
    order = {0, 1, 3, 5, 2, 4};
  }
  tensor = changed(importer, node, tensor, [&](Tensor& t) { return reshape(t, wide); });
  permute(tensor, order);
  importer.result(node,
                  changed(importer, node, tensor, [&](Tensor& t) { return reshape(t, out); }));
}

void channel_shuffle(Importer& importer, const Node& node) {
  Tensor tensor = self_of(importer, node);
  const std::int64_t groups = importer.attributes(node).integer("groups");
  TensorShape wide = tensor.shape;
  wide[1].number /= groups;
  wide.insert(wide.begin() + 1, Extent{groups, false});
  tensor = changed(importer, node, tensor, [&](Tensor& t) { return reshape(t, wide); });
  std::vector<int> order(wide.size());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[1], order[2]);
  permute(tensor, order);
  importer.result(
      node, changed(importer, node, tensor, [&](Tensor& t) { return reshape(t, node.shapes[0]); }));
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

std::vector<LoweringRow> movement_lowerings() {
  return {{"view", reshape_to},
          {"reshape", reshape_to},
          {"flatten", reshape_to},
          {"unflatten", reshape_to},
          {"permute", permute_by},
          {"transpose", transpose},
          {"swapaxes", transpose},
          {"t", transpose},
          {"movedim", move_dimensions},
          {"expand", expand_to},
          {"expand_as", expand_to},
          {"broadcast_to", expand_to},
          {"contiguous", same},
          {"clone", same},
          {"alias", same},
          {"slice", slice_of},
          {"narrow", narrow},
          {"select", select_of},
          {"unbind", unbind},
          {"split", split},
          {"split_with_sizes", split},
          {"chunk", split},
          {"unsqueeze", reshape_to},
          {"squeeze", reshape_to},
          {"flip", flip},
          {"cat", concatenate},
          {"stack", concatenate},
          {"pad", pad},
          {"constant_pad_nd", pad},
          {"reflection_pad1d", pad},
          {"reflection_pad2d", pad},
          {"replication_pad1d", pad},
          {"replication_pad2d", pad},
          {"roll", roll},
          {"repeat", repeat},
          {"repeat_interleave", repeat_interleave},
          {"index_select", index_select},
          {"index", index},
          {"gather", gather_along},
          {"pixel_shuffle", pixel_shuffle},
          {"pixel_unshuffle", pixel_shuffle},
          {"channel_shuffle", channel_shuffle}};
}

}  // namespace hetpipe::graph
