// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/layer.h"

// The numbers of one optimizer step that do not depend on the element, computed in double. They
// are the same on every device, so that an element's update is the same float operations in the
// same order.
namespace hetpipe {

struct AdamStep {
  float rate, beta1, beta2, rest1, rest2, bias1, bias2, epsilon, decay;
  bool decoupled;
  float nu, rest_nu;

  // What the step follows, of the first moment m and the gradient g.
  HETPIPE_HOST_DEVICE float direction(float m, float g) const {
    const float mean = m / bias1;
    return nu == 1 ? mean : nu * mean + rest_nu * g;
  }
};

// 1 - beta.
inline float rest_of(float beta) { return static_cast<float>(1.0 - static_cast<double>(beta)); }

// rest = 1 - beta; bias = 1 - beta^step, step counted from 1.
inline AdamStep adam_step(const AdamOptions& o, std::int64_t step) {
  const double beta1 = static_cast<double>(o.beta1);
  const double beta2 = static_cast<double>(o.beta2);
  const double t = static_cast<double>(step);
  return {o.rate,
          o.beta1,
          o.beta2,
          rest_of(o.beta1),
          rest_of(o.beta2),
          static_cast<float>(1.0 - std::pow(beta1, t)),
          static_cast<float>(1.0 - std::pow(beta2, t)),
          o.epsilon,
          o.weight_decay,
          o.decoupled,
          o.nu,
          rest_of(o.nu)};
}

// What LAMB multiplies an update u of weights w by (arXiv 1904.00962, algorithm 2): rate |w|/|u|
// where neither norm is 0, else the rate. squares: of w, then of u.
HETPIPE_HOST_DEVICE inline float trust_factor(const double* squares, float rate) {
  const double by = static_cast<double>(rate);
  const bool trusted = squares[0] > 0 && squares[1] > 0;
  return trusted ? static_cast<float>(by * (std::sqrt(squares[0]) / std::sqrt(squares[1]))) : rate;
}

// What makes a vector with this sum of squares a unit vector; 0 stays 0.
HETPIPE_HOST_DEVICE inline float unit_factor(double squares) {
  return squares > 0 ? static_cast<float>(1 / std::sqrt(squares)) : 0.0f;
}

}  // namespace hetpipe
