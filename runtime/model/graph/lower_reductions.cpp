// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "runtime/model/graph/importer.h"

// Sums, means and extremes over dimensions.
namespace hetpipe::graph {
namespace {

std::vector<int> reduced_dimensions(const Importer& importer, const Node& node, int rank) {
  std::vector<int> dims;
  for (std::int64_t d : importer.attributes(node).integers("dim", {})) {
    dims.push_back(static_cast<int>(d < 0 ? d + rank : d));
  }
  if (dims.empty()) {
    for (int d = 0; d < rank; ++d) dims.push_back(d);
  }
  std::sort(dims.begin(), dims.end());
  return dims;
}

// Over these dimensions, which stay with extent 1.
Tensor reduced(Importer& importer, const Node& node, Tensor x, const std::vector<int>& dims,
               Reduce::Kind kind) {
  if (!x.bare() || x.leaves[0].kind != Leaf::Kind::layer) x = importer.materialize(node, x);
  for (const int d : dims) {
    if (at(x.shape, d).samples) throw Unsupported("it mixes the samples of a batch");
  }
  const std::optional<std::vector<Loop>> loops = common_loops(x.leaves, x.shape);
  if (!loops || x.leaves[0].kind != Leaf::Kind::layer) {
    throw Unsupported("a reduction of what no layer computes");
  }
  std::vector<Loop> kept, over;
  for (const Loop& loop : *loops) {
    if (loop.samples) continue;
    const bool gone = std::find(dims.begin(), dims.end(), loop.dimension) != dims.end();
    (gone ? over : kept).push_back(loop);
  }
  // The kept ones stay in the order in which they lie.
  std::stable_sort(kept.begin(), kept.end(), [](const Loop& a, const Loop& b) {
    return std::abs(a.strides[0]) > std::abs(b.strides[0]);
  });
  Reduce r;
  r.kind = kind;
  std::vector<std::int64_t> strides, table_strides;
  for (const auto* part : {&kept, &over}) {
    for (const Loop& loop : *part) {
      (part == &kept ? r.kept : r.reduced).push_back(loop.extent);
      strides.push_back(loop.strides[0]);
      table_strides.push_back(loop.table_strides[0]);
    }
  }
  Importer::Operands operands;
  r.from = operands.add(importer, x.leaves[0], strides, table_strides);
  const int layer = importer.add(node, r, operands.inputs, {});
  Leaf leaf;
  leaf.layer = layer;
  leaf.dimensions.resize(x.shape.size());
  std::vector<std::int64_t> place(kept.size());
  std::int64_t stride = 1;
  for (std::size_t i = kept.size(); i-- > 0;) {
    place[i] = stride;
    stride *= kept[i].extent;
  }
  // Parts in the order of the shape.
  for (const Loop& loop : *loops) {
    if (std::find(dims.begin(), dims.end(), loop.dimension) != dims.end()) continue;
    Dimension& dimension = at(leaf.dimensions, loop.dimension);
    if (loop.samples) {
      dimension.push_back({1, 0, 0, true});
      continue;
    }
    for (std::size_t i = 0; i < kept.size(); ++i) {
      if (kept[i].dimension == loop.dimension && kept[i].strides == loop.strides &&
          kept[i].extent == loop.extent) {
        dimension.push_back({loop.extent, place[i], 0, false});
        break;
      }
    }
  }
  TensorShape shape = x.shape;
  for (const int d : dims) at(shape, d) = Extent{};
  return bare(leaf, shape);
}

Tensor without(Tensor tensor, std::vector<int> dims) {
  std::sort(dims.rbegin(), dims.rend());
  for (const int d : dims) remove_dimension(tensor, d);
  return tensor;
}

void give(Importer& importer, const Node& node, Tensor value, const std::vector<int>& dims) {
  const bool keep = importer.attributes(node).flag("keepdim", false);
  importer.result(node, keep ? value : without(std::move(value), dims));
}

template <Reduce::Kind kKind>
void reduce(Importer& importer, const Node& node) {
  const Tensor x = importer.input(node, "self");
  const std::vector<int> dims = reduced_dimensions(importer, node, x.rank());
  give(importer, node, reduced(importer, node, x, dims, kKind), dims);
}

// The variance, or its root: mean((x - mean)^2), with Bessel's correction.
void variance(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Tensor x = importer.materialize(node, importer.input(node, "self"));
  const std::vector<int> dims = reduced_dimensions(importer, node, x.rank());
  double correction = attributes.number("correction", attributes.flag("unbiased", true) ? 1 : 0);
  double count = 1;
  for (const int d : dims) count *= static_cast<double>(at(x.shape, d).number);
  const Tensor mean = reduced(importer, node, x, dims, Reduce::Kind::mean);
  const Tensor square = apply("square", {apply("sub", {x, mean}, x.shape)}, x.shape);
  Tensor value = reduced(importer, node, square, dims, Reduce::Kind::mean);
  const double factor = count / std::max(count - correction, 0.0);
  if (factor != 1) value = apply("mul", {value, number(factor)}, value.shape);
  if (node.op == "std") value = apply("sqrt", {value}, value.shape);
  give(importer, node, value, dims);
}

// The 2-norm.
void norm(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const char* const which = attributes.has("ord") ? "ord" : "p";
  if (attributes.number(which, 2) != 2) throw Unsupported("a norm other than the 2-norm");
  const Tensor x = importer.input(node, "self");
  const std::vector<int> dims = reduced_dimensions(importer, node, x.rank());
  const Tensor square = apply("square", {x}, x.shape);
  const Tensor sum = reduced(importer, node, square, dims, Reduce::Kind::sum);
  give(importer, node, apply("sqrt", {sum}, sum.shape), dims);
}

void log_sum_exp(Importer& importer, const Node& node) {
  const Tensor x = importer.materialize(node, importer.input(node, "self"));
  const std::vector<int> dims = reduced_dimensions(importer, node, x.rank());
  const Tensor most = reduced(importer, node, x, dims, Reduce::Kind::maximum);
  const Tensor e = apply("exp", {apply("sub", {x, most}, x.shape)}, x.shape);
  const Tensor sum = reduced(importer, node, e, dims, Reduce::Kind::sum);
  give(importer, node, apply("add", {apply("log", {sum}, sum.shape), most}, sum.shape), dims);
}

// Values alone, of max and min along a dimension.
template <Reduce::Kind kKind>
void extreme(Importer& importer, const Node& node) {
  reduce<kKind>(importer, node);
}

void cumulative_sum(Importer& importer, const Node& node) {
  const Tensor x = importer.input(node, "self");
  std::int64_t dim = importer.attributes(node).integer("dim");
  if (dim < 0) dim += x.rank();
  if (at(x.shape, dim).samples) throw Unsupported("it mixes the samples of a batch");
  // (N, rows, T, 1)
  const std::vector<int> inner{static_cast<int>(dim)};
  const Dense dense = importer.lay_out(node, x, inner);
  const std::int64_t steps = at(x.shape, dim).number;
  const int layer = importer.add(node, CumulativeSum{}, {dense}, {Shape{dense.rows, steps, 1}});
  importer.result(node, importer.output(layer, dense, inner, {steps}, x.shape));
}

}  // namespace

std::vector<LoweringRow> reduction_lowerings() {
  return {{"mean", reduce<Reduce::Kind::mean>},
          {"sum", reduce<Reduce::Kind::sum>},
          {"amax", reduce<Reduce::Kind::maximum>},
          {"amin", reduce<Reduce::Kind::minimum>},
          {"max", extreme<Reduce::Kind::first_maximum>},
          {"min", extreme<Reduce::Kind::first_minimum>},
          {"var", variance},
          {"std", variance},
          {"norm", norm},
          {"linalg_vector_norm", norm},
          {"logsumexp", log_sum_exp},
          {"cumsum", cumulative_sum}};
}

}  // namespace hetpipe::graph
