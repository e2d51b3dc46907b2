// SPDX-License-Identifier: Apache-2.0
#include "kernels/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"

namespace hetpipe {
namespace element_test {

// The value of a pattern of bits by its definition: sign, exponent, mantissa, in double.
double value_of(std::uint16_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  return sign * std::ldexp((1 << mantissa_bits) + mantissa, exponent - bias - mantissa_bits);
}

struct Format {
  int exponent_bits, mantissa_bits;
  std::uint16_t infinity;
};
template <class T>
constexpr Format format_of();
template <>
constexpr Format format_of<Bf16>() {
  return {8, 7, 0x7f80};
}
template <>
constexpr Format format_of<Fp16>() {
  return {5, 10, 0x7c00};
}

template <class T>
class Narrow : public testing::Test {
 protected:
  static constexpr Format kFormat = format_of<T>();
  static double value(std::uint16_t bits) {
    return value_of(bits, kFormat.exponent_bits, kFormat.mantissa_bits);
  }

  // Rounding by search among all numbers: the nearest, of two the even one. Infinity stands where
  // the next number after the largest would.
  static std::uint16_t nearest(float x) {
    const auto sign = static_cast<std::uint16_t>(std::signbit(x) ? 0x8000 : 0);
    const double size = std::abs(static_cast<double>(x));
    const auto place = [](std::uint16_t bits) {
      return bits < kFormat.infinity ? value(bits)
                                     : 2 * value(static_cast<std::uint16_t>(kFormat.infinity - 1)) -
                                           value(static_cast<std::uint16_t>(kFormat.infinity - 2));
    };
    std::uint16_t low = 0, high = kFormat.infinity;
    if (size >= place(high)) return sign | high;
    while (high - low > 1) {
      const auto middle = static_cast<std::uint16_t>((low + high) / 2);
      (place(middle) <= size ? low : high) = middle;
    }
    const double below = size - place(low), above = place(high) - size;
    const bool up = above < below || (above == below && low % 2 != 0);
    return sign | (up ? high : low);
  }

  static void check_rounding(float x) {
    if (std::isnan(x)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(T(x))));
    } else {
      ASSERT_EQ(T(x).bits, nearest(x)) << std::hexfloat << x;
    }
  }
};
using Narrows = testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(Narrow, Narrows);

TYPED_TEST(Narrow, EveryValueThereAndBack) {
  for (std::uint32_t i = 0; i < 65536; ++i) {
    TypeParam t;
    t.bits = static_cast<std::uint16_t>(i);
    const float wide = static_cast<float>(t);
    const double wanted = this->value(t.bits);
    if (std::isnan(wanted)) {
      ASSERT_TRUE(std::isnan(wide)) << i;
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(wide)))) << i;
      continue;
    }
    ASSERT_EQ(static_cast<double>(wide), wanted) << i;
    ASSERT_EQ(std::signbit(wide), i >= 0x8000) << i;
    ASSERT_EQ(TypeParam(wide).bits, t.bits) << i;
  }
}

// Each number of T, the middle to the next and the floats around both.
TYPED_TEST(Narrow, RoundsToNearestTiesToEven) {
  for (std::uint32_t i = 0; i < this->kFormat.infinity; ++i) {
    const auto at = static_cast<float>(this->value(static_cast<std::uint16_t>(i)));
    const auto next = static_cast<std::uint16_t>(i + 1);
    const double above =
        next < this->kFormat.infinity
            ? this->value(next)
            : 2 * static_cast<double>(at) - this->value(static_cast<std::uint16_t>(i - 1));
    const auto middle = static_cast<float>((static_cast<double>(at) + above) / 2);
    for (const float x : {at, middle}) {
      for (const float y : {std::nextafter(x, -1.0f), x, std::nextafter(x, 1e38f)}) {
        this->check_rounding(y);
        this->check_rounding(-y);
      }
    }
  }
}

TYPED_TEST(Narrow, RoundsAnyFloat) {
  for (std::uint64_t i = 0; i < 400'000; ++i) {
    this->check_rounding(std::bit_cast<float>(random_bits(1, i)));
  }
}

TYPED_TEST(Narrow, RoundsWhatIsSpecial) {
  using Float = std::numeric_limits<float>;
  for (const float x : {0.0f, Float::denorm_min(), Float::min(), Float::max(), Float::infinity(),
                        65504.0f, 65519.99f, 65520.0f, 0x1p-24f, 0x1p-25f, 0x1.000002p-25f}) {
    this->check_rounding(x);
    this->check_rounding(-x);
  }
  // NaNs, whose bits that say so may lie in the half that is lost.
  for (const std::uint32_t bits : {0x7fc00000u, 0x7f800001u, 0xff800001u, 0xffffffffu}) {
    this->check_rounding(std::bit_cast<float>(bits));
  }
}

}  // namespace element_test
}  // namespace hetpipe
