// SPDX-License-Identifier: Apache-2.0
// Operators that move elements, as far as strides can say it.
#include <algorithm>
#include <numeric>

#include "base/index.h"
#include "runtime/model/graph/lower_parts.h"

namespace hetpipe::graph {
namespace {

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

std::vector<LoweringRow> view_lowerings() {
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
          {"repeat", repeat},
          {"repeat_interleave", repeat_interleave},
          {"index_select", index_select},
          {"index", index},
          {"pixel_shuffle", pixel_shuffle},
          {"pixel_unshuffle", pixel_shuffle},
          {"channel_shuffle", channel_shuffle}};
}

}  // namespace hetpipe::graph
