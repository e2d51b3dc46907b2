// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <vector>

#include "kernels/algebra.h"
#include "kernels/expression_gradient.h"
#include "kernels/pointwise_operators.h"

// Tensors read through strides, and the layers that only move or map elements (kernels/algebra.h).
// Everything is computed in double and rounded to T once.
namespace hetpipe::reference {

using Extents = std::vector<std::int64_t>;

inline std::int64_t product_of(const Extents& extents) {
  return std::accumulate(extents.begin(), extents.end(), std::int64_t{1}, std::multiplies<>());
}
inline Extents joined(std::initializer_list<Extents> parts) {
  Extents all;
  for (const Extents& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// sum i_j * strides[j] for all places of the loops, the last loop fastest.
inline Extents sums_of(const Extents& extents, const Extents& strides) {
  Extents all{0};
  for (std::size_t j = 0; j < extents.size(); ++j) {
    Extents finer;
    for (const std::int64_t at : all)
      for (std::int64_t i = 0; i < extents[j]; ++i) finer.push_back(at + i * strides[j]);
    all = std::move(finer);
  }
  return all;
}

// Which element of a sample (of the parameter, of the constant) an operand is, at all places.
inline Extents places_of(const Operand& o, const Extents& extents) {
  Extents places = sums_of(extents, o.strides);
  for (std::int64_t& p : places) p += o.offset;
  if (o.table.empty()) return places;
  const Extents rows = sums_of(extents, o.table_strides);
  for (std::size_t i = 0; i < places.size(); ++i) places[i] += o.table[rows[i]];
  return places;
}

// What operands are read from.
template <class T>
struct Tensors {
  std::int64_t samples = 1;
  std::vector<const T*> inputs;
  std::vector<std::int64_t> input_elements;  // of a sample
  std::vector<const T*> parameters;
  std::vector<std::int64_t> parameter_elements;
  std::span<const ConstantTable<float>> constants;

  double read(const Operand& o, std::int64_t sample, std::int64_t place) const {
    const auto i = static_cast<std::size_t>(o.index);
    switch (o.source) {
      case Source::input:
        return static_cast<double>(inputs[i][sample * input_elements[i] + place]);
      case Source::parameter:
        return static_cast<double>(parameters[i][place]);
      default:
        return static_cast<double>(constants[i][place]);
    }
  }
};

// Gradients of inputs and parameters, added up in double in the order of the calls, samples one
// after another. Null pointers: nobody wants them.
template <class T>
class Gradients {
 public:
  Gradients(const Tensors<T>& tensors, std::vector<T*> inputs, std::vector<T*> parameters)
      : tensors_(tensors), inputs_(std::move(inputs)), parameters_(std::move(parameters)) {
    inputs_.resize(tensors.inputs.size(), nullptr);
    parameters_.resize(tensors.parameters.size(), nullptr);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      sums_.emplace_back(inputs_[i] == nullptr ? std::size_t{0}
                                               : static_cast<std::size_t>(
                                                     tensors.samples * tensors.input_elements[i]));
    }
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      sums_.emplace_back(parameters_[i] == nullptr
                             ? std::size_t{0}
                             : static_cast<std::size_t>(tensors.parameter_elements[i]));
    }
  }

  bool wanted(const Operand& o) const {
    const auto i = static_cast<std::size_t>(o.index);
    return o.source == Source::input       ? inputs_[i] != nullptr
           : o.source == Source::parameter ? parameters_[i] != nullptr
                                           : false;
  }
  void add(const Operand& o, std::int64_t sample, std::int64_t place, double value) {
    if (!wanted(o)) return;
    const auto i = static_cast<std::size_t>(o.index);
    if (o.source == Source::input) {
      sums_[i][static_cast<std::size_t>(sample * tensors_.input_elements[i] + place)] += value;
    } else {
      sums_[inputs_.size() + i][static_cast<std::size_t>(place)] += value;
    }
  }
  void store() {
    for (std::size_t i = 0; i < sums_.size(); ++i) {
      T* const to = i < inputs_.size() ? inputs_[i] : parameters_[i - inputs_.size()];
      for (std::size_t e = 0; e < sums_[i].size(); ++e) to[e] = static_cast<T>(sums_[i][e]);
    }
  }

 private:
  const Tensors<T>& tensors_;
  std::vector<T*> inputs_, parameters_;
  std::vector<std::vector<double>> sums_;
};

// The values of all steps, in double.
inline void evaluate(const Expression& e, std::span<const double> variables,
                     std::vector<double>& values) {
  values.resize(e.steps.size());
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    const Expression::Step& s = e.steps[i];
    if (s.kind == Expression::Kind::variable) {
      values[i] = variables[static_cast<std::size_t>(s.variable)];
    } else if (s.kind == Expression::Kind::number) {
      values[i] = static_cast<double>(s.number);
    } else {
      std::array<double, 3> a{};
      for (std::size_t k = 0; k < 3 && s.arguments[k] >= 0; ++k) {
        a[k] = values[static_cast<std::size_t>(s.arguments[k])];
      }
      values[i] = pointwise::visit_row(s.op.row, [&]<std::int16_t row>() {
        return pointwise::Operator<row>::template apply<double>(a[0], a[1], a[2]);
      });
    }
  }
}

template <class T>
void pointwise_forward(const Pointwise& p, const Tensors<T>& t, T* y) {
  std::vector<Extents> places;
  for (const Operand& o : p.operands) places.push_back(places_of(o, p.extents));
  std::vector<double> variables(p.operands.size()), values;
  const auto count = static_cast<std::size_t>(product_of(p.extents));
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (std::size_t e = 0; e < count; ++e) {
      for (std::size_t o = 0; o < variables.size(); ++o)
        variables[o] = t.read(p.operands[o], n, places[o][e]);
      evaluate(p.expression, variables, values);
      *y++ = static_cast<T>(values.back());
    }
}

// `gradient` is gradient_of(p); of inputs and output, what it does not read may be null.
template <class T>
void pointwise_backward(const Pointwise& p, const ExpressionGradient& gradient, const Tensors<T>& t,
                        const T* y, const T* dy, Gradients<T>& gradients) {
  std::vector<Extents> places;
  for (const Operand& o : p.operands) places.push_back(places_of(o, p.extents));
  const std::size_t operands = p.operands.size();
  const std::vector<bool> reads = gradient.reads(operands);
  std::vector<double> variables(operands + 2, 0.0), values;
  const auto count = static_cast<std::size_t>(product_of(p.extents));
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (std::size_t e = 0; e < count; ++e) {
      const std::size_t at = static_cast<std::size_t>(n) * count + e;
      for (std::size_t o = 0; o < operands; ++o)
        if (reads[o]) variables[o] = t.read(p.operands[o], n, places[o][e]);
      variables[operands] = static_cast<double>(dy[at]);
      if (reads[operands + 1]) variables[operands + 1] = static_cast<double>(y[at]);
      evaluate(gradient.steps, variables, values);
      for (std::size_t o = 0; o < operands; ++o) {
        if (gradient.gradients[o] < 0) continue;
        gradients.add(p.operands[o], n, places[o][e],
                      values[static_cast<std::size_t>(gradient.gradients[o])]);
      }
    }
}

template <class T>
void move_forward(const Move& m, const Tensors<T>& t, T* y) {
  const std::int64_t elements = product_of(m.output);
  std::fill_n(y, t.samples * elements, static_cast<T>(m.fill));
  for (const Move::Piece& piece : m.pieces) {
    const Extents from = places_of(piece.from, piece.extents);
    const Extents to = sums_of(piece.extents, piece.to_strides);
    for (std::int64_t n = 0; n < t.samples; ++n)
      for (std::size_t e = 0; e < from.size(); ++e)
        y[n * elements + piece.to_offset + to[e]] = static_cast<T>(t.read(piece.from, n, from[e]));
  }
}

template <class T>
void move_backward(const Move& m, const Tensors<T>& t, const T* dy, Gradients<T>& gradients) {
  const std::int64_t elements = product_of(m.output);
  for (std::int64_t n = 0; n < t.samples; ++n)
    for (const Move::Piece& piece : m.pieces) {
      if (!gradients.wanted(piece.from)) continue;
      const Extents from = places_of(piece.from, piece.extents);
      const Extents to = sums_of(piece.extents, piece.to_strides);
      for (std::size_t e = 0; e < from.size(); ++e)
        gradients.add(piece.from, n, from[e],
                      static_cast<double>(dy[n * elements + piece.to_offset + to[e]]));
    }
}

}  // namespace hetpipe::reference
