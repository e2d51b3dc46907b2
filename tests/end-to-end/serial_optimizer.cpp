// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"

namespace hetpipe {
namespace {

// Within blocks of 4096 elements, then block by block.
double squares_of(const Floats& values, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t block = 0; block < count; block += 4096) {
    double of_block = 0;
    for (std::size_t i = block; i < std::min(count, block + 4096); ++i) {
      const double value = static_cast<double>(values[first + i]);
      of_block += value * value;
    }
    sum += of_block;
  }
  return sum;
}

}  // namespace

SerialSteps::SerialSteps(SerialOptimizer optimizer, const ParameterLayout& layout,
                         std::vector<Floats> slots)
    : SerialSteps(std::move(optimizer), static_cast<std::size_t>(layout.count())) {
  parameters_.clear();
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const bool decays = optimizer_.vectors_decay || entry.file_shape.size() > 1;
    parameters_.push_back({static_cast<std::size_t>(entry.offset),
                           static_cast<std::size_t>(entry.count),
                           decays ? optimizer_.weight_decay : 0.0f,
                           optimizer_.factor_of ? optimizer_.factor_of(entry.name) : 1.0});
    const Shape& shape = entry.shape.shape;  // as it lies in memory
    if (shape.rank() < 2) continue;
    Parameter& matrix = parameters_.back();
    matrix.rows = static_cast<std::size_t>(shape[0]);
    matrix.columns = matrix.count / matrix.rows;
    matrix.inputs_first = shape.rank() == 2 && entry.name.starts_with("linear");
  }
  if (slots.empty()) return;
  ensure(slots.size() == slots_.size(), "the state of this optimizer");
  slots_ = std::move(slots);
}

SerialSteps::SerialSteps(SerialOptimizer optimizer, std::size_t count)
    : optimizer_(std::move(optimizer)), parameters_{{0, count, optimizer_.weight_decay, 1}} {
  ensure(has("sgd") || has("sgd-momentum") || has("rmsprop") || has("muon") || has_moments(),
         "a known optimizer");
  slots_.assign(has("sgd") ? 0 : has_moments() ? 2 : 1, Floats(count));
}

// Powers in double, the factors to float once.
SerialSteps::Adam SerialSteps::adam(std::int64_t step) const {
  const double beta1 = optimizer_.beta1, beta2 = optimizer_.beta2, t = static_cast<double>(step);
  return {static_cast<float>(1 - beta1), static_cast<float>(1 - beta2),
          static_cast<float>(1 - std::pow(beta1, t)), static_cast<float>(1 - std::pow(beta2, t))};
}

float SerialSteps::direction(const Adam& factors, float rate, std::size_t i) const {
  return (rate * (slots_[0][i] / factors.bias1)) /
         (std::sqrt(slots_[1][i] / factors.bias2) + optimizer_.epsilon);
}

Floats SerialSteps::delta(const Floats& gradient, const Floats& weights, std::int64_t step,
                          Minibatch p) {
  ensure(gradient.size() == weights.size(), "a gradient of the weights");
  const Adam factors = adam(step);
  Floats result(gradient.size());
  for (const Parameter& of : parameters_) {
    const auto rate = static_cast<float>(optimizer_.rate_at(p) * of.factor);
    step_of(of, gradient, weights, has("lamb") ? 1.0f : rate, factors, result);
    if (has("lamb")) trust(of, weights, rate, result);
    if (optimizer_.damping > 0 && of.rows > 1 && of.columns > 1) damp(of, step, result);
  }
  step_ = step;
  newest_ = result;
  return result;
}

void SerialSteps::step_of(const Parameter& of, const Floats& gradient, const Floats& weights,
                          float rate, const Adam& factors, Floats& result) {
  const SerialOptimizer& o = optimizer_;
  if (has("muon")) return muon(of, gradient, weights, rate, result);
  for (std::size_t i = of.first; i < of.first + of.count; ++i) {
    const bool decoupled = has("adamw") || has("lamb");
    const float g = decoupled ? gradient[i] : gradient[i] + of.decay * weights[i];
    if (has("sgd")) {
      result[i] = -(rate * g);
    } else if (has("sgd-momentum")) {
      float& v = slots_[0][i];
      v = o.momentum * v + g;
      result[i] = o.nesterov ? -(rate * (g + o.momentum * v)) : -(rate * v);
    } else if (has("rmsprop")) {
      float& v = slots_[0][i];
      v = o.alpha * v + static_cast<float>(1 - double{o.alpha}) * (g * g);
      result[i] = -((rate * g) / (std::sqrt(v) + o.epsilon));
    } else {
      float& m = slots_[0][i];
      float& v = slots_[1][i];
      m = o.beta1 * m + factors.rest1 * g;
      v = o.beta2 * v + factors.rest2 * (g * g);
      float change = direction(factors, rate, i);
      if (o.nu != 1) {  // QHAdam's mixture in place of the moment
        const float mixed = o.nu * (m / factors.bias1) + static_cast<float>(1 - double{o.nu}) * g;
        change = rate * mixed / (std::sqrt(v / factors.bias2) + o.epsilon);
      }
      result[i] = decoupled ? -(change + (rate * of.decay) * weights[i]) : -change;
    }
  }
}

namespace {

// The nearest float of a sum of products, times a factor.
template <class Left, class Right>
float product(std::size_t terms, float factor, const Left& left, const Right& right) {
  double sum = 0;
  for (std::size_t t = 0; t < terms; ++t) {
    sum += static_cast<double>(left(t)) * static_cast<double>(right(t));
  }
  return static_cast<float>(static_cast<double>(factor) * sum);
}

void scale(Floats& values, float factor) {
  for (float& value : values) value *= factor;
}

float over_norm(const Floats& values, float rate) {
  const double squares = squares_of(values, 0, values.size());
  return squares > 0 ? static_cast<float>(double{rate} * (1 / std::sqrt(squares))) : rate;
}

}  // namespace

void SerialSteps::muon(const Parameter& of, const Floats& gradient, const Floats& weights,
                       float rate, Floats& result) {
  const float mu = optimizer_.momentum;
  Floats d(of.count);
  for (std::size_t i = 0; i < of.count; ++i) {
    float& v = slots_[0][of.first + i];
    const float g = gradient[of.first + i];
    v = mu * v + g;
    d[i] = -(g + mu * v);
  }
  const bool matrix = of.rows > 1 && of.columns > 1;
  const std::size_t longer = matrix ? std::max(of.rows, of.columns) : of.count;
  const float length = static_cast<float>(0.2 * std::sqrt(static_cast<double>(longer)));
  if (!matrix) {
    scale(d, over_norm(d, rate * length));
  } else {
    const float a = 3.4445f, b = -4.7750f, c = 2.0315f;
    const std::size_t m = std::min(of.rows, of.columns), n = longer;
    const auto x = [&](std::size_t i, std::size_t k) -> float& {
      return of.rows > of.columns ? d[k * m + i] : d[i * n + k];
    };
    scale(d, over_norm(d, 1));
    for (int step = 0; step < 5; ++step) {
      Floats gram(m * m), q(m * m), moved(m * n);
      for (std::size_t i = 0; i < m * m; ++i) {
        gram[i] = product(
            n, 1, [&](std::size_t k) { return x(i / m, k); },
            [&](std::size_t k) { return x(i % m, k); });
      }
      for (std::size_t i = 0; i < m * m; ++i) {
        q[i] = product(
                   m, c / b, [&](std::size_t t) { return gram[i / m * m + t]; },
                   [&](std::size_t t) { return gram[t * m + i % m]; }) +
               gram[i];
      }
      for (std::size_t i = 0; i < m * n; ++i) {
        moved[i] = product(
            m, b, [&](std::size_t t) { return q[i / n * m + t]; },
            [&](std::size_t t) { return x(t, i % n); });
      }
      scale(d, a);
      for (std::size_t i = 0; i < m * n; ++i) x(i / n, i % n) += moved[i];
    }
    scale(d, rate * length);
  }
  for (std::size_t i = 0; i < of.count; ++i) {
    const float decayed = weights[of.first + i] * -(rate * of.decay);
    result[of.first + i] = of.decay > 0 ? d[i] + decayed : d[i];
  }
}

void SerialSteps::damp(const Parameter& of, std::int64_t step, Floats& result) const {
  const auto mixed = [](std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  };
  float* const d = result.data() + of.first;
  const auto along_rows = [&](const Floats& v) {
    Floats sums;
    for (std::size_t r = 0; r < of.rows; ++r) {
      std::array<float, 32> lane{};
      for (std::size_t c = 0; c < of.columns; ++c) lane[c % 32] += d[r * of.columns + c] * v[c];
      for (std::size_t half = 16; half > 0; half /= 2) {
        for (std::size_t l = 0; l < half; ++l) lane[l] += lane[l + half];
      }
      sums.push_back(lane[0]);
    }
    return sums;
  };
  const auto down_columns = [&](const Floats& v) {
    Floats sums;
    for (std::size_t c = 0; c < of.columns; ++c) {
      float sum = 0, block = 0;
      for (std::size_t r = 0; r < of.rows; ++r) {
        block += d[r * of.columns + c] * v[r];
        if (r % 64 < 63 && r + 1 < of.rows) continue;
        sum += block;
        block = 0;
      }
      sums.push_back(sum);
    }
    return sums;
  };
  const auto over_inputs = [&](const Floats& v) {  // a number for each output
    return of.inputs_first ? down_columns(v) : along_rows(v);
  };
  const auto over_outputs = [&](const Floats& v) {
    return of.inputs_first ? along_rows(v) : down_columns(v);
  };
  const std::size_t inputs = of.inputs_first ? of.rows : of.columns;
  const std::size_t most = std::max<std::size_t>(1, std::min(of.rows, of.columns) / 2);
  const auto directions = static_cast<std::size_t>(optimizer_.damped_directions);
  for (std::size_t k = 0; k < std::min(most, directions); ++k) {
    Floats start;
    for (std::size_t i = 0; i < inputs; ++i) {
      start.push_back(
          k == 0 || mixed(i + (std::uint64_t(step) << 24) + (k << 56)) % 2 == 1 ? 1.0f : -1.0f);
    }
    Floats x = over_outputs(over_inputs(start));
    const double squares = squares_of(x, 0, x.size());
    for (float& value : x) {
      value *= squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0f;
    }
    const Floats z = over_inputs(x);
    for (std::size_t r = 0; r < of.rows; ++r) {
      for (std::size_t c = 0; c < of.columns; ++c) {
        const float by = optimizer_.damping * z[of.inputs_first ? c : r];
        d[r * of.columns + c] -= by * x[of.inputs_first ? r : c];
      }
    }
  }
}

void SerialSteps::trust(const Parameter& of, const Floats& weights, float rate, Floats& result) {
  const double w = squares_of(weights, of.first, of.count);
  const double u = squares_of(result, of.first, of.count);
  float by = rate;
  if (w > 0 && u > 0) {
    by = static_cast<float>(static_cast<double>(rate) * (std::sqrt(w) / std::sqrt(u)));
  }
  for (std::size_t i = of.first; i < of.first + of.count; ++i) result[i] *= by;
}

Floats SerialSteps::predicted(const Floats& weights, int ahead, Minibatch p) const {
  if (step_ == 0) return weights;
  const Adam factors = adam(step_);
  Floats result(weights.size());
  for (const Parameter& of : parameters_) {
    const auto f = static_cast<float>(ahead * (optimizer_.rate_at(p) * of.factor));
    for (std::size_t i = of.first; i < of.first + of.count; ++i) {
      if (has("sgd") || has("rmsprop") || has("lamb") || has("muon")) {
        result[i] = weights[i] + static_cast<float>(ahead) * newest_[i];
      } else if (has("sgd-momentum")) {
        result[i] = weights[i] - f * slots_[0][i];
      } else {
        float change = direction(factors, f, i);
        if (has("adamw")) change += (f * of.decay) * weights[i];
        result[i] = weights[i] - change;
      }
    }
  }
  return result;
}

}  // namespace hetpipe
