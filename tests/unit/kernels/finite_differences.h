// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/random.h"

// Gradients against central differences, in double: the error of a central difference with step
// 1e-5 is about 1e-10 (truncation) plus 1e-11 (rounding) at values around one.
namespace hetpipe::test {

using Values = std::vector<double>;

inline Values values(std::uint64_t key, std::int64_t count) {
  Values v(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<double>(random_normal(key, i));
  return v;
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// `gradient` of dot(forward(), dy) with respect to `x`, which forward reads.
inline void expect_gradient(Values& x, const Values& gradient, const Values& dy,
                            const std::function<Values()>& forward) {
  constexpr double kStep = 1e-5;
  ASSERT_EQ(x.size(), gradient.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double above = dot(forward(), dy);
    x[i] = kept - kStep;
    const double below = dot(forward(), dy);
    x[i] = kept;
    const double wanted = (above - below) / (2 * kStep);
    ASSERT_NEAR(gradient[i], wanted, 2e-8 * (1 + std::abs(wanted))) << "element " << i;
  }
}

inline Values sized(std::int64_t count) { return Values(static_cast<std::size_t>(count), 1e30); }

}  // namespace hetpipe::test
