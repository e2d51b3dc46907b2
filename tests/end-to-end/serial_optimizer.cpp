// SPDX-License-Identifier: Apache-2.0
#include "tests/end-to-end/serial_optimizer.h"

#include <cmath>

#include "base/error.h"

namespace hetpipe {
namespace {

constexpr float kBeta1 = 0.9f;
constexpr float kBeta2 = 0.999f;
constexpr float kEpsilon = 1e-8f;

}  // namespace

SerialSteps::SerialSteps(SerialOptimizer optimizer, std::size_t count)
    : optimizer_(std::move(optimizer)) {
  const std::string& name = optimizer_.name;
  ensure(name == "sgd" || name == "sgd-momentum" || name == "adam", "a known optimizer");
  slots_.assign(name == "sgd" ? 0 : name == "adam" ? 2 : 1, Floats(count));
}

// Powers in double, the factors to float once.
SerialSteps::Adam SerialSteps::adam(std::int64_t step) {
  const double beta1 = kBeta1, beta2 = kBeta2, t = static_cast<double>(step);
  return {static_cast<float>(1 - beta1), static_cast<float>(1 - beta2),
          static_cast<float>(1 - std::pow(beta1, t)), static_cast<float>(1 - std::pow(beta2, t))};
}

float SerialSteps::Adam::direction(float rate, float m, float v) const {
  return (rate * (m / bias1)) / (std::sqrt(v / bias2) + kEpsilon);
}

Floats SerialSteps::delta(const Floats& gradient, const Floats& weights, std::int64_t step,
                          Minibatch p) {
  ensure(gradient.size() == weights.size(), "a gradient of the weights");
  const SerialOptimizer& o = optimizer_;
  const auto rate = static_cast<float>(o.rate_at(p));
  const Adam factors = adam(step);
  Floats result(gradient.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float g = gradient[i] + o.weight_decay * weights[i];
    if (o.name == "sgd") {
      result[i] = -(rate * g);
    } else if (o.name == "sgd-momentum") {
      float& v = slots_[0][i];
      v = o.momentum * v + g;
      result[i] = -(rate * v);
    } else {
      float& m = slots_[0][i];
      float& v = slots_[1][i];
      m = kBeta1 * m + factors.rest1 * g;
      v = kBeta2 * v + factors.rest2 * (g * g);
      result[i] = -factors.direction(rate, m, v);
    }
  }
  step_ = step;
  newest_ = result;
  return result;
}

Floats SerialSteps::predicted(const Floats& weights, int ahead, Minibatch p) const {
  if (step_ == 0) return weights;
  const SerialOptimizer& o = optimizer_;
  const auto f = static_cast<float>(ahead * o.rate_at(p));
  const Adam factors = adam(step_);
  Floats result(weights.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (o.name == "sgd") {
      result[i] = weights[i] + static_cast<float>(ahead) * newest_[i];
    } else if (o.name == "sgd-momentum") {
      result[i] = weights[i] - f * slots_[0][i];
    } else {
      result[i] = weights[i] - factors.direction(f, slots_[0][i], slots_[1][i]);
    }
  }
  return result;
}

}  // namespace hetpipe
