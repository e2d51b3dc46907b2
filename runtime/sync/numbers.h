// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"

namespace hetpipe {

// Where numbers lie, one after another: floats, or bf16, which are widened when they are added.
struct Numbers {
  Numbers() = default;
  Numbers(const float* floats)  // NOLINT: floats are such numbers
      : lie(reinterpret_cast<const std::byte*>(floats)) {}
  Numbers(const std::byte* bytes, ElementType of) : lie(bytes), type(of) {}

  Numbers from(std::int64_t first) const {
    if (lie == nullptr) return *this;
    return {lie + first * static_cast<std::int64_t>(bytes_of(type)), type};
  }

  const std::byte* lie = nullptr;
  ElementType type = ElementType::fp32;
};

}  // namespace hetpipe
