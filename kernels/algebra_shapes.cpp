// SPDX-License-Identifier: Apache-2.0
#include "kernels/algebra_shapes.h"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "base/text.h"

namespace hetpipe {
namespace algebra_shapes {

using Extents = std::vector<std::int64_t>;

[[noreturn]] void refuse_layer(const std::string& layer, const std::string& problem) {
  throw std::invalid_argument(layer + ": " + problem);
}

std::int64_t product(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}

Extents joined(std::initializer_list<Extents> parts) {
  Extents all;
  for (const Extents& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

Shape with_samples(const std::string& layer, std::int64_t samples, const Extents& extents) {
  Extents all = joined({{samples}, extents});
  // More loops than a shape has extents: the innermost ones as one.
  while (all.size() > static_cast<std::size_t>(Shape::kMaxRank)) {
    all[all.size() - 2] *= all.back();
    all.pop_back();
  }
  for (const std::int64_t e : all) {
    if (e < 1) refuse_layer(layer, format("an extent of %lld", static_cast<long long>(e)));
  }
  return Shape(std::span<const std::int64_t>(all));
}

// The smallest and largest of sum i_j * strides[j].
std::pair<std::int64_t, std::int64_t> range(const Extents& extents, const Extents& strides) {
  std::int64_t low = 0, high = 0;
  for (std::size_t j = 0; j < extents.size(); ++j) {
    const std::int64_t last = (extents[j] - 1) * strides[j];
    (last < 0 ? low : high) += last;
  }
  return {low, high};
}

// What a layer's operands may read.
struct Sources {
  const std::string& layer;
  const std::vector<Shape>& inputs;
  const std::vector<ParameterShape>& parameters;
  const std::vector<ConstantTable<float>>& constants;

  std::int64_t elements(const Operand& o) const {
    const auto checked = [&](std::size_t count, const char* what) {
      if (o.index < 0 || static_cast<std::size_t>(o.index) >= count) {
        refuse_layer(layer, format("reads %s %d of %zu", what, o.index, count));
      }
      return static_cast<std::size_t>(o.index);
    };
    switch (o.source) {
      case Source::input: {
        const Shape& in = inputs[checked(inputs.size(), "input")];
        return in.elements() / inputs[0][0];
      }
      case Source::parameter:
        return parameters[checked(parameters.size(), "parameter")].shape.elements();
      case Source::constant:
        return constants[checked(constants.size(), "constant")].size();
    }
    return 0;
  }

  void check(const Operand& o, const Extents& extents) const {
    if (o.strides.size() != extents.size() ||
        (!o.table.empty() && o.table_strides.size() != extents.size())) {
      refuse_layer(layer, format("an operand of %zu strides under %zu loops", o.strides.size(),
                                 extents.size()));
    }
    auto [low, high] = range(extents, o.strides);
    if (!o.table.empty()) {
      const auto [first, last] = range(extents, o.table_strides);
      if (first < 0 || last >= o.table.size()) {
        refuse_layer(layer, format("place %lld of a table of %lld",
                                   static_cast<long long>(first < 0 ? first : last),
                                   static_cast<long long>(o.table.size())));
      }
      const auto [least, most] =
          std::minmax_element(o.table.data() + first, o.table.data() + last + 1);
      low += *least;
      high += *most;
    }
    low += o.offset;
    high += o.offset;
    if (low < 0 || high >= elements(o)) {
      refuse_layer(layer,
                   format("reads elements %lld to %lld of %lld", static_cast<long long>(low),
                          static_cast<long long>(high), static_cast<long long>(elements(o))));
    }
  }
};

// How many samples a layer has: the first input's first extent; all inputs are of the same samples.
std::int64_t samples_of(const std::string& layer, const std::vector<Shape>& in) {
  for (const Shape& other : in) {
    if (other[0] != in[0][0]) {
      refuse_layer(layer, "inputs " + to_string(in[0]) + " and " + to_string(other) +
                              " differ in the number of samples");
    }
  }
  return in[0][0];
}

// Whether an operand is a whole input, element by element in the order of the output.
bool whole_input(const Pointwise& p, const Operand& o, const std::vector<Shape>& in) {
  if (o.source != Source::input || o.offset != 0 || !o.table.empty()) return false;
  std::int64_t stride = 1;
  for (std::size_t j = p.extents.size(); j-- > 0;) {
    if (p.extents[j] > 1 && o.strides[j] != stride) return false;
    stride *= p.extents[j];
  }
  return stride == in[static_cast<std::size_t>(o.index)].elements() / in[0][0];
}

// The output may take the place of the first input that one operand reads, in the order of the
// output, and that backward does not read. The gradient of that input may take the place of the
// output's where all gradients are of this kind.
void decide_in_place(const Pointwise& p, const std::vector<Shape>& in, LayerShapes& s) {
  std::vector<int> readers(in.size(), 0);
  std::vector<bool> whole(in.size(), true);
  for (const Operand& o : p.operands) {
    if (o.source != Source::input) continue;
    const auto i = static_cast<std::size_t>(o.index);
    ++readers[i];
    whole[i] = whole[i] && whole_input(p, o, in);
  }
  s.backward_in_place = p.parameters.empty();
  for (std::size_t i = in.size(); i-- > 0;) {
    const bool alone = readers[i] == 1 && whole[i];
    s.backward_in_place = s.backward_in_place && alone;
    if (!alone || reads_in_backward(s, i)) continue;
    s.forward_in_place = true;
    s.in_place_input = i;
  }
}

}  // namespace algebra_shapes

using namespace algebra_shapes;

LayerShapes shapes_of(const Pointwise& p, const std::string& layer, const std::vector<Shape>& in) {
  const Sources sources{layer, in, p.parameters, p.constants};
  for (const Operand& o : p.operands) sources.check(o, p.extents);
  if (p.expression.steps.empty()) refuse_layer(layer, "an empty expression");
  std::vector<bool> read(p.operands.size(), false);
  double work = 0;
  for (const Expression::Step& step : p.expression.steps) {
    if (step.kind == Expression::Kind::apply) work += flops(step.op);
    if (step.kind != Expression::Kind::variable) continue;
    if (step.variable < 0 || static_cast<std::size_t>(step.variable) >= p.operands.size()) {
      refuse_layer(layer, format("operand %d of %zu", step.variable, p.operands.size()));
    }
    read[static_cast<std::size_t>(step.variable)] = true;
  }
  if (!std::all_of(read.begin(), read.end(), [](bool r) { return r; })) {
    refuse_layer(layer, "an operand that the expression does not read");
  }
  LayerShapes s;
  s.output = with_samples(layer, samples_of(layer, in), p.extents);
  s.parameters = p.parameters;
  s.forward_flops = work * static_cast<double>(s.output.elements());
  s.backward_flops = 2 * s.forward_flops;
  // What the derivatives by the operands read of inputs and output.
  const BackwardNeeds needs = backward_needs(p);
  s.backward_needs_output = needs.output;
  s.backward_reads.assign(in.size(), false);
  for (std::size_t o = 0; o < p.operands.size(); ++o) {
    if (p.operands[o].source != Source::input || !needs.operands[o]) continue;
    s.backward_reads[static_cast<std::size_t>(p.operands[o].index)] = true;
    s.backward_needs_input = true;
  }
  decide_in_place(p, in, s);
  return s;
}

LayerShapes shapes_of(const Move& m, const std::string& layer, const std::vector<Shape>& in) {
  const Sources sources{layer, in, m.parameters, m.constants};
  std::int64_t written = 0;
  for (const Move::Piece& piece : m.pieces) {
    sources.check(piece.from, piece.extents);
    if (piece.to_strides.size() != piece.extents.size()) {
      refuse_layer(layer, "a piece whose places have other loops");
    }
    const auto [low, high] = range(piece.extents, piece.to_strides);
    if (low + piece.to_offset < 0 || high + piece.to_offset >= product(m.output)) {
      refuse_layer(layer, "a piece outside of the output");
    }
    written += product(piece.extents);
  }
  if (written > product(m.output)) refuse_layer(layer, "pieces that overlap");
  LayerShapes s;
  s.output = with_samples(layer, samples_of(layer, in), m.output);
  s.parameters = m.parameters;
  return s;
}

LayerShapes shapes_of(const Reduce& r, const std::string& layer, const std::vector<Shape>& in) {
  const Sources sources{layer, in, {}, {}};
  sources.check(r.from, joined({r.kept, r.reduced}));
  if (r.from.source != Source::input) refuse_layer(layer, "reduces an input only");
  LayerShapes s;
  s.output = with_samples(layer, samples_of(layer, in), r.kept);
  s.forward_flops = s.backward_flops =
      static_cast<double>(s.output.elements() * product(r.reduced));
  s.backward_needs_input = r.kind != Reduce::Kind::sum && r.kind != Reduce::Kind::mean;
  return s;
}

LayerShapes shapes_of(const Product& p, const std::string& layer, const std::vector<Shape>& in) {
  const Sources sources{layer, in, p.parameters, p.constants};
  sources.check(p.a, joined({p.batch, {p.rows, p.inner}}));
  sources.check(p.b, joined({p.batch, {p.inner, p.columns}}));
  const Extents loops = joined({p.batch, {p.rows, p.columns}});
  Extents ordered = loops;
  if (!p.order.empty()) {
    std::vector<int> sorted = p.order;
    std::sort(sorted.begin(), sorted.end());
    for (std::size_t i = 0; i < loops.size(); ++i) {
      if (sorted.size() != loops.size() || sorted[i] != static_cast<int>(i)) {
        refuse_layer(layer, "an order that is no permutation of its loops");
      }
      ordered[i] = loops[static_cast<std::size_t>(p.order[i])];
    }
  }
  LayerShapes s;
  s.output = with_samples(layer, samples_of(layer, in), ordered);
  s.parameters = p.parameters;
  s.forward_flops = 2.0 * static_cast<double>(s.output.elements() * p.inner);
  s.backward_flops = 2 * s.forward_flops;
  s.backward_needs_input = true;
  return s;
}

LayerShapes shapes_of(const Softmax&, const std::string& layer, const std::vector<Shape>& in) {
  if (in[0].rank() < 2) refuse_layer(layer, "input " + to_string(in[0]) + " has no features");
  LayerShapes s;
  s.output = in[0];
  s.forward_flops = 5.0 * static_cast<double>(in[0].elements());
  s.backward_flops = 4.0 * static_cast<double>(in[0].elements());
  s.backward_needs_output = true;
  s.forward_in_place = s.backward_in_place = true;
  return s;
}

LayerShapes shapes_of(const CumulativeSum&, const std::string& layer,
                      const std::vector<Shape>& in) {
  if (in[0].rank() < 2) refuse_layer(layer, "input " + to_string(in[0]) + " has no places");
  LayerShapes s;
  s.output = in[0];
  s.forward_flops = s.backward_flops = static_cast<double>(in[0].elements());
  return s;
}

LayerShapes shapes_of(const Attention& a, const std::string& layer, const std::vector<Shape>& in) {
  const Sources sources{layer, in, a.parameters, a.constants};
  if (a.heads < 1 || a.kv_heads < 1 || a.heads % a.kv_heads != 0) {
    refuse_layer(layer, format("%d heads and %d of keys and values", a.heads, a.kv_heads));
  }
  if (!(a.dropout >= 0 && a.dropout < 1)) {
    refuse_layer(layer, format("dropout %g is not in [0, 1)", double(a.dropout)));
  }
  sources.check(a.query, {a.heads, a.queries, a.features});
  sources.check(a.key, {a.kv_heads, a.keys, a.features});
  sources.check(a.value, {a.kv_heads, a.keys, a.value_features});
  if (a.mask) sources.check(*a.mask, {a.heads, a.queries, a.keys});
  LayerShapes s;
  const std::int64_t samples = samples_of(layer, in);
  s.output = {samples, a.queries, a.heads, a.value_features};
  s.parameters = a.parameters;
  const std::int64_t weights = samples * a.heads * a.queries * a.keys;
  // The softmax, (N, heads, queries, keys), and where it is kept.
  s.stash_bytes = weights * std::int64_t{sizeof(float)} + (a.dropout > 0 ? weights : 0);
  const double products =
      2.0 * static_cast<double>(weights) * static_cast<double>(a.features + a.value_features);
  s.forward_flops = products + 5.0 * static_cast<double>(weights);
  s.backward_flops = 2 * products + 4.0 * static_cast<double>(weights);
  s.backward_needs_input = true;
  return s;
}

}  // namespace hetpipe
