// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/cuda/own/simt.h"

// A sum of squares of floats in double, by integers alone: the same bits as
// `sum += double(x) * double(x)`, element by element, ties to even. For cards whose doubles run at
// a 32nd or a 64th of their floats' rate. Squares are not negative, so nothing cancels; they and
// their sums are normal doubles, or 0.
namespace hetpipe::cuda {

class SumOfSquares {
 public:
  HETPIPE_DEVICE void add(float x) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7fffffffu;
    if (bits >= kInfinity) beyond_ |= bits > kInfinity ? kNan : kInfinite;
    const std::uint32_t field = bits >> 23;
    const std::uint32_t digits = (bits & 0x7fffffu) | (field > 0 ? 0x800000u : 0u);
    std::uint64_t square = std::uint64_t{digits} * digits;
    if (square == 0) return;
    // So that the first of 53 digits is 1, as it is in digits_. Of a normal number's square at most
    // one step is left.
    int exponent = 2 * (static_cast<int>(field > 0 ? field : 1u) - kFloatBias) - kShift;
    square <<= kShift;
    for (; square < kFirst; square <<= 1) --exponent;
    if (digits_ == 0) {
      digits_ = square;
      exponent_ = exponent;
      return;
    }
    add(square, exponent);
  }

  // The double.
  HETPIPE_DEVICE std::uint64_t bits() const {
    if (beyond_ != 0) return beyond_ == kInfinite ? kDoubleInfinity : kDoubleNan;
    if (digits_ == 0) return 0;
    return (static_cast<std::uint64_t>(exponent_ + kDoubleBias) << 52) | (digits_ & (kFirst - 1));
  }

 private:
  static constexpr std::uint32_t kInfinity = 0x7f800000u;
  static constexpr std::uint64_t kDoubleInfinity = 0x7ffull << 52, kDoubleNan = 0x7ff8ull << 48;
  static constexpr int kFloatBias = 150, kDoubleBias = 1075;  // of digits without a point
  static constexpr int kShift = 5;                            // from 48 digits to 53
  static constexpr std::uint64_t kFirst = std::uint64_t{1} << 52;
  static constexpr int kGuard = 10;  // digits behind those of the result: 63 in all
  static constexpr unsigned kInfinite = 1, kNan = 2;

  HETPIPE_DEVICE void add(std::uint64_t square, int exponent) {
    std::uint64_t large = digits_, small = square;
    int apart = exponent_ - exponent;
    if (apart < 0) {
      large = square;
      small = digits_;
      exponent_ = exponent;
      apart = -apart;
    }
    if (apart > 63) apart = 63;  // less than half of the last digit, as everything beyond
    const std::uint64_t behind = small << kGuard;
    const std::uint64_t moved = behind >> apart;
    const bool lost = (moved << apart) != behind;
    const std::uint64_t sum = (large << kGuard) + moved;
    const int drop = (sum >> 63) != 0 ? kGuard + 1 : kGuard;
    const std::uint64_t rest = sum & ((std::uint64_t{1} << drop) - 1);
    const std::uint64_t half = std::uint64_t{1} << (drop - 1);
    digits_ = sum >> drop;
    exponent_ += drop - kGuard;
    if (rest > half || (rest == half && (lost || (digits_ & 1) != 0))) ++digits_;
    if (digits_ == kFirst << 1) {
      digits_ = kFirst;
      ++exponent_;
    }
  }

  std::uint64_t digits_ = 0;  // 53, the first of which is 1; or none
  int exponent_ = 0;          // of the last
  unsigned beyond_ = 0;       // what came that is no number, or more
};

}  // namespace hetpipe::cuda
