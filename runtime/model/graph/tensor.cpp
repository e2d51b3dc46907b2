// SPDX-License-Identifier: Apache-2.0
#include "runtime/model/graph/tensor.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/index.h"
#include "kernels/pointwise_operators.h"

namespace hetpipe::graph {

bool Leaf::same_source(const Leaf& other) const {
  return kind == other.kind && layer == other.layer && name == other.name && values == other.values;
}

bool Tensor::constant() const {
  return std::all_of(leaves.begin(), leaves.end(),
                     [](const Leaf& leaf) { return leaf.kind == Leaf::Kind::constant; });
}
bool Tensor::has_layer() const {
  return std::any_of(leaves.begin(), leaves.end(),
                     [](const Leaf& leaf) { return leaf.kind == Leaf::Kind::layer; });
}

Tensor bare(Leaf leaf, TensorShape shape) {
  Tensor tensor;
  tensor.expression.variable(0);
  tensor.leaves.push_back(std::move(leaf));
  tensor.shape = std::move(shape);
  return tensor;
}

std::vector<Dimension> in_order(const TensorShape& shape) {
  std::vector<Dimension> dimensions(shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    const Extent& e = shape[d];
    if (e.samples) dimensions[d].push_back({1, 0, 0, true});
    if (e.number != 1) dimensions[d].push_back({e.number, stride, 0, false});
    stride *= e.number;
  }
  return dimensions;
}

Tensor own_copies(Tensor tensor) {
  for (const Extent& e : tensor.shape) {
    if (e.samples) return tensor;
  }
  for (Leaf& leaf : tensor.leaves) {
    for (Dimension& dimension : leaf.dimensions) {
      std::erase_if(dimension, [](const Atom& atom) { return atom.samples; });
    }
  }
  return tensor;
}

Extent extent_of(const Dimension& dimension) {
  Extent extent;
  for (const Atom& atom : dimension) {
    if (atom.samples) {
      extent.samples = true;
    } else {
      extent.number *= atom.extent;
    }
  }
  return extent;
}

void merge_atoms(Dimension& dimension) {
  Dimension merged;
  for (const Atom& atom : dimension) {
    if (!atom.samples && atom.extent == 1) continue;
    if (!merged.empty() && !merged.back().samples && !atom.samples &&
        merged.back().stride == atom.stride * atom.extent &&
        merged.back().table_stride == atom.table_stride * atom.extent) {
      merged.back().extent *= atom.extent;
      merged.back().stride = atom.stride;
      merged.back().table_stride = atom.table_stride;
    } else {
      merged.push_back(atom);
    }
  }
  dimension = std::move(merged);
}

namespace {

// Takes atoms from the front of `left` until they make up `wanted`; splits one where it is larger.
bool take(Dimension& left, const Extent& wanted, Dimension& taken) {
  std::int64_t need = wanted.number;
  bool samples = wanted.samples;
  while (need > 1 || samples) {
    if (left.empty()) return false;
    Atom& first = left.front();
    if (first.samples) {
      if (!samples) return false;
      samples = false;
      taken.push_back(first);
      left.erase(left.begin());
    } else if (need % first.extent == 0) {
      need /= first.extent;
      taken.push_back(first);
      left.erase(left.begin());
    } else if (need > 1 && first.extent % need == 0) {
      const std::int64_t rest = first.extent / need;
      taken.push_back({need, first.stride * rest, first.table_stride * rest, false});
      first.extent = rest;
      need = 1;
    } else {
      return false;
    }
  }
  return true;
}

// A dimension of extent 1 in a leaf that the tensor has larger is a broadcast: made explicit.
std::vector<Dimension> spelled_out(const Leaf& leaf, const TensorShape& shape) {
  std::vector<Dimension> dimensions = leaf.dimensions;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (extent_of(dimensions[d]) == shape[d] || shape[d] == Extent{}) continue;
    dimensions[d].clear();
    if (shape[d].samples) dimensions[d].push_back({1, 0, 0, true});
    if (shape[d].number != 1) dimensions[d].push_back({shape[d].number, 0, 0, false});
  }
  return dimensions;
}

bool reshape(Leaf& leaf, const TensorShape& from, const TensorShape& to) {
  Dimension all;
  for (const Dimension& dimension : spelled_out(leaf, from)) {
    all.insert(all.end(), dimension.begin(), dimension.end());
  }
  merge_atoms(all);
  std::vector<Dimension> dimensions;
  for (const Extent& extent : to) {
    Dimension& dimension = dimensions.emplace_back();
    if (!take(all, extent, dimension)) return false;
    merge_atoms(dimension);
  }
  if (!all.empty()) return false;
  leaf.dimensions = std::move(dimensions);
  return true;
}

// `count` places of a dimension from `start` on.
bool slice(Leaf& leaf, Dimension& dimension, std::int64_t start, std::int64_t step,
           std::int64_t count) {
  if (extent_of(dimension) == Extent{}) return true;  // a broadcast
  merge_atoms(dimension);
  for (const Atom& atom : dimension) {
    if (atom.samples) return false;
  }
  const auto move = [&](const Atom& atom, std::int64_t places) {
    leaf.offset += places * atom.stride;
    leaf.table_offset += places * atom.table_stride;
  };
  if (count == 1) {  // any one place
    for (std::size_t a = dimension.size(); a-- > 0;) {
      move(dimension[a], start % dimension[a].extent);
      start /= dimension[a].extent;
    }
    dimension.clear();
    return true;
  }
  std::int64_t inner = 1;
  for (std::size_t a = 1; a < dimension.size(); ++a) inner *= dimension[a].extent;
  if (dimension.size() > 1) {
    // Whole runs of the inner parts.
    if (step != 1 || start % inner != 0 || count % inner != 0) return false;
    move(dimension[0], start / inner);
    dimension[0].extent = count / inner;
    merge_atoms(dimension);
    return true;
  }
  move(dimension[0], start);
  dimension[0] = {count, dimension[0].stride * step, dimension[0].table_stride * step, false};
  return true;
}

bool gather(Leaf& leaf, Dimension& dimension, const std::vector<std::int64_t>& places) {
  if (extent_of(dimension) == Extent{}) {  // a broadcast
    return true;
  }
  merge_atoms(dimension);
  if (dimension.size() != 1 || dimension[0].samples || !leaf.table.empty()) return false;
  std::vector<std::int32_t> table;
  for (const std::int64_t place : places) {
    table.push_back(static_cast<std::int32_t>(place * dimension[0].stride));
  }
  leaf.table = ConstantTable<std::int32_t>(std::move(table));
  dimension[0] = {static_cast<std::int64_t>(places.size()), 0, 1, false};
  return true;
}

// change(leaf) for all leaves, or none.
template <class Change>
bool change_all(Tensor& tensor, const Change& change) {
  std::vector<Leaf> leaves = tensor.leaves;
  for (Leaf& leaf : leaves) {
    if (!change(leaf)) return false;
  }
  tensor.leaves = std::move(leaves);
  return true;
}

}  // namespace

bool reshape(Tensor& tensor, const TensorShape& shape) {
  if (!change_all(tensor, [&](Leaf& leaf) { return reshape(leaf, tensor.shape, shape); })) {
    return false;
  }
  tensor.shape = shape;
  return true;
}

bool slice(Tensor& tensor, int dim, std::int64_t start, std::int64_t step, std::int64_t count) {
  const bool done = change_all(tensor, [&](Leaf& leaf) {
    return slice(leaf, at(leaf.dimensions, dim), start, step, count);
  });
  if (done) at(tensor.shape, dim) = {count, false};
  return done;
}

bool gather(Tensor& tensor, int dim, const std::vector<std::int64_t>& places) {
  // Places in equal steps need no table.
  const auto count = static_cast<std::int64_t>(places.size());
  const std::int64_t step = count > 1 ? places[1] - places[0] : 1;
  bool even = true;
  for (std::int64_t i = 1; i < count; ++i) {
    even = even && at(places, i) - at(places, i - 1) == step;
  }
  if (even && slice(tensor, dim, places.front(), step, count)) return true;
  const bool done = change_all(
      tensor, [&](Leaf& leaf) { return gather(leaf, at(leaf.dimensions, dim), places); });
  if (done) at(tensor.shape, dim) = {count, false};
  return done;
}

void permute(Tensor& tensor, const std::vector<int>& order) {
  const auto permuted = [&](const auto& list) {
    std::decay_t<decltype(list)> result;
    for (const int d : order) result.push_back(at(list, d));
    return result;
  };
  for (Leaf& leaf : tensor.leaves) leaf.dimensions = permuted(leaf.dimensions);
  tensor.shape = permuted(tensor.shape);
}

void insert_dimension(Tensor& tensor, int dim) {
  for (Leaf& leaf : tensor.leaves)
    leaf.dimensions.insert(leaf.dimensions.begin() + dim, Dimension{});
  tensor.shape.insert(tensor.shape.begin() + dim, Extent{});
}

void remove_dimension(Tensor& tensor, int dim) {
  ensure(at(tensor.shape, dim) == Extent{}, "a dimension that is removed has extent 1");
  for (Leaf& leaf : tensor.leaves) leaf.dimensions.erase(leaf.dimensions.begin() + dim);
  tensor.shape.erase(tensor.shape.begin() + dim);
}

void expand(Tensor& tensor, const TensorShape& shape) {
  while (tensor.shape.size() < shape.size()) insert_dimension(tensor, 0);
  tensor.shape = shape;  // dimensions of extent 1 broadcast by themselves
}

std::optional<std::vector<Loop>> common_loops(const std::vector<Leaf>& leaves,
                                              const TensorShape& shape) {
  std::vector<Loop> loops;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    // Where the parts end, counted from the innermost place: (with samples, places).
    std::set<std::pair<bool, std::int64_t>> ends{{shape[d].samples, shape[d].number}};
    std::vector<Dimension> of_leaf;
    for (const Leaf& leaf : leaves) {
      Dimension dimension = spelled_out(leaf, shape)[d];
      merge_atoms(dimension);
      std::pair<bool, std::int64_t> end{false, 1};
      const bool broadcast = leaf.kind != Leaf::Kind::layer &&
                             std::all_of(dimension.begin(), dimension.end(), [](const Atom& a) {
                               return a.stride == 0 && a.table_stride == 0;
                             });
      for (std::size_t a = dimension.size(); a-- > 0;) {
        if (dimension[a].samples) {
          end.first = true;
        } else {
          end.second *= dimension[a].extent;
        }
        if (!broadcast && !(extent_of(leaf.dimensions[d]) == Extent{})) ends.insert(end);
      }
      of_leaf.push_back(std::move(dimension));
    }
    std::vector<std::pair<bool, std::int64_t>> sorted(ends.begin(), ends.end());
    std::vector<Extent> parts;  // innermost first
    std::pair<bool, std::int64_t> before{false, 1};
    for (const auto& end : sorted) {
      if (end.second % before.second != 0) return std::nullopt;
      if (end.second != before.second) parts.push_back({end.second / before.second, false});
      if (end.first != before.first) parts.push_back({1, true});
      before = end;
    }
    std::reverse(parts.begin(), parts.end());
    const std::size_t first = loops.size();
    for (const Extent& part : parts) {
      loops.push_back({static_cast<int>(d), part.number, part.samples, {}, {}});
    }
    for (Dimension& dimension : of_leaf) {
      const bool broadcast = std::all_of(dimension.begin(), dimension.end(), [](const Atom& a) {
        return a.samples || (a.stride == 0 && a.table_stride == 0);
      });
      for (std::size_t l = first; l < loops.size(); ++l) {
        Dimension taken;
        if (loops[l].samples || broadcast) {
          loops[l].strides.push_back(0);
          loops[l].table_strides.push_back(0);
          if (!broadcast && !dimension.empty() && dimension.front().samples) {
            dimension.erase(dimension.begin());
          }
          continue;
        }
        if (!take(dimension, {loops[l].extent, false}, taken)) return std::nullopt;
        merge_atoms(taken);
        if (taken.size() > 1) return std::nullopt;
        loops[l].strides.push_back(taken.empty() ? 0 : taken[0].stride);
        loops[l].table_strides.push_back(taken.empty() ? 0 : taken[0].table_stride);
      }
    }
  }
  return loops;
}

namespace {

int append(Expression& expression, const Expression::Step& step) {
  auto& steps = expression.steps;
  const auto same = std::find(steps.begin(), steps.end(), step);
  if (same != steps.end()) return static_cast<int>(same - steps.begin());
  steps.push_back(step);
  return static_cast<int>(steps.size()) - 1;
}

}  // namespace

Tensor number(double value) {
  Tensor tensor;
  tensor.expression.number(static_cast<float>(value));
  return tensor;
}

Tensor evaluated(const Tensor& tensor) {
  ensure(tensor.constant(), "only constants have values here");
  const std::optional<std::vector<Loop>> loops = common_loops(tensor.leaves, tensor.shape);
  ensure(loops.has_value(), "constants divide their extents alike");
  std::int64_t count = 1;
  for (const Loop& loop : *loops) count *= loop.samples ? 1 : loop.extent;
  std::vector<float> values(at(count));
  std::vector<float> steps(tensor.expression.steps.size());
  for (std::int64_t e = 0; e < count; ++e) {
    std::vector<std::int64_t> places, table_places;
    for (const Leaf& leaf : tensor.leaves) {
      places.push_back(leaf.offset);
      table_places.push_back(leaf.table_offset);
    }
    std::int64_t rest = e;
    for (auto loop = loops->rbegin(); loop != loops->rend(); ++loop) {
      if (loop->samples) continue;
      const std::int64_t i = rest % loop->extent;
      rest /= loop->extent;
      for (std::size_t l = 0; l < places.size(); ++l) {
        places[l] += i * loop->strides[l];
        table_places[l] += i * loop->table_strides[l];
      }
    }
    for (std::size_t s = 0; s < steps.size(); ++s) {
      const Expression::Step& step = tensor.expression.steps[s];
      if (step.kind == Expression::Kind::number) {
        steps[s] = step.number;
      } else if (step.kind == Expression::Kind::variable) {
        const Leaf& leaf = at(tensor.leaves, step.variable);
        const std::int64_t place = at(places, step.variable);
        steps[s] =
            leaf.values[leaf.table.empty() ? place
                                           : place + leaf.table[at(table_places, step.variable)]];
      } else {
        const auto argument = [&](std::size_t i) {
          return step.arguments[i] < 0 ? 0.0f : at(steps, step.arguments[i]);
        };
        const float x = argument(0), y = argument(1), z = argument(2);
        steps[s] = pointwise::visit_row(step.op.row, [&]<std::int16_t row>() {
          return pointwise::Operator<row>::apply(x, y, z);
        });
      }
    }
    values[at(e)] = steps.back();
  }
  Leaf leaf;
  leaf.kind = Leaf::Kind::constant;
  leaf.values = ConstantTable<float>(std::move(values));
  TensorShape shape = tensor.shape;
  for (Extent& extent : shape) extent.samples = false;
  leaf.dimensions = in_order(shape);
  return bare(leaf, shape);
}

Tensor combine(const std::vector<Tensor>& arguments, const TensorShape& shape,
               const std::function<int(Expression&, const std::vector<int>&)>& build) {
  Tensor result;
  result.shape = shape;
  std::vector<int> steps;
  for (const Tensor& given : arguments) {
    Tensor argument = given;
    expand(argument, shape);
    std::vector<int> leaf_of;
    for (const Leaf& leaf : argument.leaves) {
      const auto same =
          std::find_if(result.leaves.begin(), result.leaves.end(), [&](const Leaf& other) {
            return leaf.same_source(other) && leaf.offset == other.offset &&
                   leaf.table == other.table && leaf.table_offset == other.table_offset &&
                   leaf.dimensions == other.dimensions;
          });
      leaf_of.push_back(static_cast<int>(same - result.leaves.begin()));
      if (same == result.leaves.end()) result.leaves.push_back(leaf);
    }
    std::vector<int> step_of;
    for (const Expression::Step& step : argument.expression.steps) {
      switch (step.kind) {
        case Expression::Kind::variable:
          step_of.push_back(result.expression.variable(at(leaf_of, step.variable)));
          break;
        case Expression::Kind::number:
          step_of.push_back(result.expression.number(step.number));
          break;
        case Expression::Kind::apply: {
          Expression::Step copy = step;
          for (std::int16_t& a : copy.arguments) {
            if (a >= 0) a = static_cast<std::int16_t>(at(step_of, a));
          }
          step_of.push_back(append(result.expression, copy));
          break;
        }
      }
    }
    steps.push_back(step_of.back());
  }
  const int value = build(result.expression, steps);
  // The value is the last step.
  if (at(value) + 1 != result.expression.steps.size()) {
    result.expression.steps.push_back(result.expression.steps[at(value)]);
  }
  return result;
}

Tensor apply(std::string_view op, const std::vector<Tensor>& arguments, const TensorShape& shape) {
  return combine(arguments, shape, [&](Expression& e, const std::vector<int>& steps) {
    Expression::Step step{.kind = Expression::Kind::apply, .op = pointwise_operator(op)};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      step.arguments[i] = static_cast<std::int16_t>(steps[i]);
    }
    return append(e, step);
  });
}

}  // namespace hetpipe::graph
