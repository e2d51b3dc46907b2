// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "kernels/host_device.h"
#include "tests/unit/kernels/layer_run.h"

// How near a device that rounds in its own way comes to the definition.
namespace hetpipe::test {

// Half a unit in the last place of what is multiplied or kept, relative.
inline double rounding(Precision precision) {
  return precision == Precision::fp32 ? 0x1p-24 : precision == Precision::bf16 ? 0x1p-9 : 0x1p-12;
}

// A float sum of up to 2^12 terms wanders by about 64 roundings of 2^-24; four such are allowed.
// Where numbers in between are rounded to two bytes, or to tf32 in front of a product, each
// rounding is of one number out of many: six of them, relative to the largest result, are more than
// layers with one product make, and recurrences make some more. The derivative of a gate that is
// nearly 1 is nearly 0, and what the gate was rounded by is not: `of_one` is allowed there.
struct Tolerance {
  double of_largest = 0;
  double of_one = 1e-7;
};
inline Tolerance tolerance(const LayerSpec& spec, Precision precision) {
  const double sums = 4 * 64 * 0x1p-24;
  if (precision == Precision::fp32) return {.of_largest = sums};
  const double one = rounding(precision);
  if (std::holds_alternative<Lstm>(spec) || std::holds_alternative<Recurrent>(spec)) {
    return {sums + 16 * one, 16 * one};
  }
  const bool products = std::holds_alternative<SelfAttention>(spec) ||
                        std::holds_alternative<Attention>(spec);  // two, and a softmax
  return {.of_largest = sums + (products ? 16 : 6) * one};
}

// Numbers that the device holds exactly, so that the reference starts from the same ones.
inline void round_to(Precision precision, std::vector<float>& values) {
  if (precision == Precision::tf32) {
    // bf16 has fewer digits and the same range.
    precision = Precision::bf16;
  }
  const ElementType type = element_of(precision);
  std::vector<std::byte> narrow(values.size() * bytes_of(type));
  const auto count = static_cast<std::int64_t>(values.size());
  convert_elements(narrow.data(), type, activations(values.data()), ElementType::fp32, count);
  convert_elements(activations(values.data()), ElementType::fp32, narrow.data(), type, count);
}

using Compare = std::function<void(const std::vector<float>&, const std::vector<float>&,
                                   const std::string& what)>;

inline void compare_all(const LayerResult& got, const LayerResult& wanted, const Compare& compare) {
  compare(got.output, wanted.output, "output");
  compare(got.evaluated, wanted.evaluated, "output in evaluation");
  const auto each = [&](const auto& some, const auto& others, const std::string& what) {
    ASSERT_EQ(some.size(), others.size());
    for (std::size_t i = 0; i < some.size(); ++i) {
      compare(some[i], others[i], what + " " + std::to_string(i));
    }
  };
  each(got.input_gradients, wanted.input_gradients, "input gradient");
  each(got.parameter_gradients, wanted.parameter_gradients, "parameter gradient");
  each(got.statistics, wanted.statistics, "statistics");
  EXPECT_EQ(got.correct, wanted.correct);
}

inline Compare within(Tolerance tolerance) {
  return [tolerance](const auto& got, const auto& wanted, const std::string& what) {
    ASSERT_EQ(got.size(), wanted.size()) << what;
    double largest = 0;
    for (float x : wanted) largest = std::max(largest, std::abs(static_cast<double>(x)));
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isfinite(got[i])) << what << " element " << i;
      ASSERT_NEAR(got[i], wanted[i], tolerance.of_largest * largest + tolerance.of_one)
          << what << " element " << i;
    }
  };
}

inline Compare same_bits() {
  return [](const auto& got, const auto& wanted, const std::string& what) {
    ASSERT_EQ(got, wanted) << what;
  };
}

}  // namespace hetpipe::test
