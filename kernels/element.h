// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/precision.h"

// The number types of activations. Parameters, their gradients, running statistics and
// losses are fp32 everywhere, and tokens are read as fp32. Usable in device code as well, where
// the GPU's own conversions are taken: the same bits but for the bits of a NaN.
#ifdef __CUDACC__
#define HETPIPE_HOST_DEVICE __host__ __device__
#else
#define HETPIPE_HOST_DEVICE
#endif

namespace hetpipe {

enum class ElementType : std::uint8_t { fp32, bf16, fp16 };

constexpr std::size_t bytes_of(ElementType type) { return type == ElementType::fp32 ? 4 : 2; }
constexpr const char* to_string(ElementType type) {
  return type == ElementType::fp32 ? "fp32" : type == ElementType::bf16 ? "bf16" : "fp16";
}

constexpr ElementType element_of(Precision precision) {
  return precision == Precision::bf16   ? ElementType::bf16
         : precision == Precision::fp16 ? ElementType::fp16
                                        : ElementType::fp32;
}

// The upper half of a float: 8 bits of exponent, 7 of mantissa. Rounds to nearest, ties to even; a
// NaN stays one.
struct Bf16 {
  std::uint16_t bits = 0;

  Bf16() = default;
  HETPIPE_HOST_DEVICE explicit Bf16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto wide = std::bit_cast<std::uint32_t>(value);
    bits = (wide & 0x7fffffffu) > 0x7f800000u
               ? static_cast<std::uint16_t>((wide >> 16) | 0x40u)
               : static_cast<std::uint16_t>((wide + 0x7fffu + ((wide >> 16) & 1u)) >> 16);
#endif
  }
  HETPIPE_HOST_DEVICE explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

// IEEE 754 binary16: 5 bits of exponent, 10 of mantissa, largest 65504. Rounds to nearest, ties to
// even; what is too large becomes infinite.
struct Fp16 {
  std::uint16_t bits = 0;

  Fp16() = default;
  HETPIPE_HOST_DEVICE explicit Fp16(float value) {
#ifdef __CUDA_ARCH__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((wide >> 16) & 0x8000u);
    const std::uint32_t size = wide & 0x7fffffffu;
    std::uint32_t narrow = 0;
    if (size > 0x7f800000u) {
      narrow = 0x7e00u;
    } else if (size >= 0x477ff000u) {  // rounds to 65520 and above
      narrow = 0x7c00u;
    } else if (size >= 0x38800000u) {  // normal
      narrow = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
    } else {
      // Subnormal: adding 0.5 leaves the multiple of 2^-24 in the low bits, rounded.
      narrow = std::bit_cast<std::uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
    }
    bits = static_cast<std::uint16_t>(sign | narrow);
#endif
  }
  HETPIPE_HOST_DEVICE explicit operator float() const {
#ifdef __CUDA_ARCH__
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
#else
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16;
    const std::uint32_t size = bits & 0x7fffu;
    if (size >= 0x7c00u) return std::bit_cast<float>(sign | 0x7f800000u | ((size & 0x3ffu) << 13));
    if (size >= 0x400u) return std::bit_cast<float>(sign | ((size + 0x1c000u) << 13));
    const float value = static_cast<float>(size) * 0x1p-24f;
    return sign != 0 ? -value : value;
#endif
  }
};

static_assert(sizeof(Bf16) == 2 && sizeof(Fp16) == 2);

}  // namespace hetpipe
