// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/random.h"
#include "kernels/cpu/pointwise_loops.h"
#include "kernels/expression.h"
#include "kernels/pointwise_operators.h"

// The CPU's loops in float against the definition in double, for every row of the table.
namespace hetpipe {
namespace pointwise_values_test {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double defined(std::int16_t row, float x, float y, float z) {
  return pointwise::visit_row(row, [&]<std::int16_t r>() {
    return pointwise::Operator<r>::template apply<double>(
        static_cast<double>(x), static_cast<double>(y), static_cast<double>(z));
  });
}

std::vector<float> computed(std::int16_t row, const std::vector<float>& x,
                            const std::vector<float>& y, const std::vector<float>& z) {
  std::vector<float> out(x.size());
  loops::pointwise_loop(row)(out.data(), x.data(), y.data(), z.data(),
                             static_cast<std::int64_t>(x.size()));
  return out;
}

// The distance in units in the last place of `wanted`.
double units(float got, double wanted) {
  const float nearest = static_cast<float>(wanted);
  if (std::isnan(nearest) || std::isinf(nearest)) {
    return std::bit_cast<std::uint32_t>(got) == std::bit_cast<std::uint32_t>(nearest) ||
                   (std::isnan(got) && std::isnan(nearest))
               ? 0
               : HUGE_VAL;
  }
  const double unit = static_cast<double>(
      std::max(std::nextafter(std::abs(nearest), kInfinity) - std::abs(nearest), 0x1p-126f));
  return std::abs(static_cast<double>(got) - wanted) / unit;
}

// Of every size, both signs, dense near 0 and 1.
std::vector<float> points(std::uint64_t key, std::size_t count) {
  std::vector<float> all;
  for (std::size_t i = 0; i < count; ++i) {
    const float n = random_normal(key, 2 * i), scale = random_normal(key, 2 * i + 1);
    all.push_back(n * std::exp(2.5f * scale));
  }
  return all;
}

TEST(PointwiseValues, FloatsAreNearTheDefinition) {
  constexpr std::size_t kPoints = 20000;
  const std::vector<float> x = points(1, kPoints), z = points(3, kPoints);
  for (std::int16_t row = 0; row < pointwise::kRows; ++row) {
    const std::string name = to_string(PointwiseOperator{row});
    SCOPED_TRACE(name);
    std::vector<float> y = points(2, kPoints);
    if (name == "celu") {
      for (float& alpha : y) alpha = 0.5f + std::abs(alpha);
    }
    const std::vector<float> got = computed(row, x, y, z);
    // Sums of parts of both signs lose digits near their zeros, as everybody's do: of those the
    // distance is taken relative to the parts.
    const bool cancels = name.starts_with("gelu") || name.ends_with("_slope") || name == "mish" ||
                         name == "silu" || name == "hardswish";
    double worst = 0, at = 0;
    for (std::size_t i = 0; i < kPoints; ++i) {
      const double wanted = defined(row, x[i], y[i], z[i]);
      const double far = cancels
                             ? std::abs(static_cast<double>(got[i]) - wanted) /
                                   (0x1p-23 * std::max(1.0, std::abs(static_cast<double>(x[i]))))
                             : units(got[i], wanted);
      if (!(far <= worst)) {
        worst = far;
        at = static_cast<double>(x[i]);
      }
    }
    EXPECT_LE(worst, name == "pow" ? 1 : 4) << "at " << at;
  }
}

TEST(PointwiseValues, EdgesAndNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x{0.0f,    -0.0f,     kInfinity,  -kInfinity, nan,      1.0f,
                             -1.0f,   0x1p-140f, -0x1p-140f, 0x1p-126f,  88.7f,    -87.5f,
                             -103.0f, 1e30f,     -1e30f,     0.5f,       2.5f,     -3.0f,
                             3.0f,    6.0f,      100.0f,     -100.0f,    0x1p127f, 9.5f};
  const std::vector<float> y(x.size(), 0.5f), z(x.size(), 2.0f);
  for (const char* name :
       {"exp",   "expm1", "log",     "log1p",       "sqrt",       "rsqrt",  "reciprocal", "abs",
        "sign",  "tanh",  "sigmoid", "erf",         "relu",       "relu6",  "hardtanh",   "clamp",
        "floor", "ceil",  "round",   "hardsigmoid", "softplus",   "square", "maximum",    "minimum",
        "neg",   "trunc", "elu",     "leaky_relu",  "logical_not"}) {
    SCOPED_TRACE(name);
    const std::int16_t row = pointwise_operator(name).row;
    const std::vector<float> got = computed(row, x, y, z);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_LE(units(got[i], defined(row, x[i], y[i], z[i])), 4)
          << "at " << x[i] << ": " << got[i] << ", not " << defined(row, x[i], y[i], z[i]);
    }
  }
}

}  // namespace pointwise_values_test
}  // namespace hetpipe
