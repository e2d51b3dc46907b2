// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/own/simt.h"
#include "kernels/element.h"
#include "tests/unit/kernels/layer_run.h"

// What the tests of single kernels share: numbers of every type, and comparisons.
namespace hetpipe::cuda::test {

using hetpipe::test::normal_values;
using Elements = testing::Types<float, Bf16, Fp16>;

// `count` elements in memory of that exact size, the first of them `offset` elements after a
// 16-byte boundary; NaN until written.
template <class T>
class Array {
 public:
  explicit Array(std::int64_t count, std::int64_t offset = 0)
      : offset_(offset), size_(count), memory_(new T[static_cast<std::size_t>(offset + count)]) {
    std::fill_n(memory_.get(), offset + count, unwritten());
  }
  explicit Array(const std::vector<T>& values, std::int64_t offset = 0)
      : Array(static_cast<std::int64_t>(values.size()), offset) {
    std::copy(values.begin(), values.end(), data());
  }

  T* data() { return memory_.get() + offset_; }
  std::int64_t size() const { return size_; }
  T operator[](std::int64_t i) const { return memory_[static_cast<std::size_t>(offset_ + i)]; }
  // What stands before the first element is still as it was.
  std::vector<T> values() const {
    const T before = unwritten();
    for (std::int64_t i = 0; i < offset_; ++i) {
      EXPECT_EQ(std::memcmp(&memory_[static_cast<std::size_t>(i)], &before, sizeof(T)), 0);
    }
    return {memory_.get() + offset_, memory_.get() + offset_ + size_};
  }

 private:
  static T unwritten() {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(0xa5);
    } else {
      return T(std::numeric_limits<float>::quiet_NaN());
    }
  }

  std::int64_t offset_, size_;
  std::unique_ptr<T[]> memory_;  // never null, empty or not
};

template <class T>
std::vector<T> rounded(const std::vector<float>& values) {
  return std::vector<T>(values.begin(), values.end());
}
template <class T>
std::vector<float> widened(const std::vector<T>& values) {
  std::vector<float> wide;
  for (const T& value : values) wide.push_back(static_cast<float>(value));
  return wide;
}
// Normal draws that T holds exactly.
template <class T>
std::vector<T> draws(std::uint64_t key, std::int64_t count) {
  return rounded<T>(normal_values(key, count));
}

// The same bits, or both NaN.
template <class T>
testing::AssertionResult same(const std::vector<T>& got, const std::vector<T>& wanted) {
  if (got.size() != wanted.size()) {
    return testing::AssertionFailure() << got.size() << " elements for " << wanted.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::memcmp(&got[i], &wanted[i], sizeof(T)) == 0) continue;
    const auto a = static_cast<double>(static_cast<float>(got[i]));
    const auto b = static_cast<double>(static_cast<float>(wanted[i]));
    if (std::isnan(a) && std::isnan(b)) continue;
    return testing::AssertionFailure() << "element " << i << " of " << got.size() << " is " << a
                                       << " where " << b << " is wanted";
  }
  return testing::AssertionSuccess();
}
// T's rounding of what is wanted.
template <class T>
testing::AssertionResult same_rounded(const std::vector<T>& got, const std::vector<float>& wanted) {
  return same(got, rounded<T>(wanted));
}

// The unit in the last place of T at `value`.
template <class T>
double last_place(double value) {
  const int mantissa = std::is_same_v<T, float> ? 23 : std::is_same_v<T, Bf16> ? 7 : 10;
  const int smallest = std::is_same_v<T, Fp16> ? -14 : -126;
  const int exponent = value == 0 ? smallest : std::max(smallest, std::ilogb(value));
  return std::ldexp(1.0, exponent - mantissa);
}
// Within half a unit of T, for its rounding, and `floats` units of float, for the arithmetic.
template <class T>
testing::AssertionResult near(const std::vector<T>& got, const std::vector<float>& wanted,
                              double floats) {
  if (got.size() != wanted.size()) {
    return testing::AssertionFailure() << got.size() << " elements for " << wanted.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto a = static_cast<double>(static_cast<float>(got[i]));
    const auto b = static_cast<double>(wanted[i]);
    const double half = std::is_same_v<T, float> ? 0 : .5 * last_place<T>(b);
    if (a == b || std::abs(a - b) <= half + floats * last_place<float>(b)) continue;
    if (std::isnan(a) && std::isnan(b)) continue;
    return testing::AssertionFailure() << "element " << i << " of " << got.size() << " is " << a
                                       << " where " << b << " is wanted";
  }
  return testing::AssertionSuccess();
}

// f() in both orders of threads and blocks: a kernel that lacks a barrier, or whose blocks reach
// for the same place, fails one of them.
template <class F>
void in_both_orders(const F& f) {
  for (const SimtOrder order : {SimtOrder::ascending, SimtOrder::descending}) {
    SCOPED_TRACE(order == SimtOrder::ascending ? "ascending" : "descending");
    set_simt_order(order);
    f();
  }
  set_simt_order(SimtOrder::ascending);
}

// Around packs of 4 and 8 elements, warps and blocks.
inline const std::vector<std::int64_t> kCounts = {0,   1,   3,   4,    7,    8,    9,   31,
                                                  255, 256, 257, 1023, 1024, 2051, 4099};

}  // namespace hetpipe::cuda::test
