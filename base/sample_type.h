// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

namespace hetpipe {

// How the numbers of samples are stored, and so how they come to a device: pixels 0 ... 255, which
// layers read as x/255, numbers of tokens below 65,536, or floats.
enum class SampleType : std::uint8_t { pixels, tokens, floats };

constexpr std::size_t bytes_of(SampleType type) {
  return type == SampleType::pixels ? 1 : type == SampleType::tokens ? 2 : 4;
}
constexpr const char* to_string(SampleType type) {
  return type == SampleType::pixels ? "pixels" : type == SampleType::tokens ? "tokens" : "floats";
}

}  // namespace hetpipe
