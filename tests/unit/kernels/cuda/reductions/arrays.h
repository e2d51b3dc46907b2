// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/own/simt.h"
#include "kernels/element.h"

// What the tests of kernels share: arrays of exactly the wanted size on the heap, so that the
// address sanitizer sees what lies outside; values that T holds exactly, so that the reference
// computes in double from the same; runs in both orders of threads, which must agree in every bit.
namespace hetpipe::cuda::test {

using ElementTypes = testing::Types<float, Bf16, Fp16>;

// The largest relative error of rounding to T.
template <class T>
constexpr double rounding() {
  return std::is_same_v<T, Bf16> ? 0x1p-8 : std::is_same_v<T, Fp16> ? 0x1p-11 : 0x1p-24;
}

template <class T>
double number(T x) {
  return static_cast<double>(static_cast<float>(x));
}

// `count` elements, poisoned with NaN or -1, whose first is `offset` elements off 16 bytes.
template <class T>
class Array {
 public:
  explicit Array(std::int64_t count, std::int64_t offset = 0)
      : offset_(static_cast<std::size_t>(offset)),
        bytes_((offset_ + static_cast<std::size_t>(count)) * sizeof(T)),
        memory_(std::make_unique_for_overwrite<std::byte[]>(bytes_)) {
    std::memset(memory_.get(), 0xff, bytes_);
  }
  template <class V>
  explicit Array(const std::vector<V>& values, std::int64_t offset = 0)
      : Array(static_cast<std::int64_t>(values.size()), offset) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if constexpr (std::is_integral_v<T>) {
        data()[i] = values[i];
      } else {
        data()[i] = static_cast<T>(static_cast<float>(values[i]));
      }
    }
  }

  T* data() const { return reinterpret_cast<T*>(memory_.get()) + offset_; }
  std::size_t size() const { return bytes_ / sizeof(T) - offset_; }
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (std::size_t i = 0; i < size(); ++i) all.push_back(number(data()[i]));
    return all;
  }
  std::vector<std::byte> bits() const { return {memory_.get(), memory_.get() + bytes_}; }

 private:
  std::size_t offset_, bytes_;
  std::unique_ptr<std::byte[]> memory_;
};

// Scratch memory of exactly the promised size.
inline Array<char> scratch(std::size_t bytes) {
  return Array<char>(static_cast<std::int64_t>(bytes));
}

// Normal numbers as T holds them.
template <class T>
std::vector<double> normal(std::int64_t count, unsigned seed, double mean = 0,
                           double deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> draw(mean, deviation);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& v : values) v = number(static_cast<T>(static_cast<float>(draw(random))));
  return values;
}

// got = wanted rounded to T, give or take `slack` that comes from arithmetic in float.
template <class T>
void expect_close(const Array<T>& got, const std::vector<double>& wanted, double slack,
                  const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double bound = rounding<T>() * std::abs(wanted[i]) * 1.01 + slack + 0x1p-25;
    const double error = std::abs(number(got.data()[i]) - wanted[i]);
    ASSERT_TRUE(error <= bound) << what << " element " << i << ": " << number(got.data()[i])
                                << " for " << wanted[i] << ", bound " << bound;
  }
}

// run() returns arrays; the last run's come back.
template <class Run>
auto in_both_orders(const Run& run) {
  set_simt_order(SimtOrder::descending);
  const auto other = run();
  set_simt_order(SimtOrder::ascending);
  auto result = run();
  EXPECT_TRUE(result.bits() == other.bits()) << "the order of threads shows in the result";
  return result;
}

// Bits of several arrays, for results that are structs.
template <class... Arrays>
std::vector<std::byte> bits_of(const Arrays&... arrays) {
  std::vector<std::byte> all;
  const auto append = [&](const std::vector<std::byte>& bits) {
    all.insert(all.end(), bits.begin(), bits.end());
  };
  (append(arrays.bits()), ...);
  return all;
}

}  // namespace hetpipe::cuda::test
