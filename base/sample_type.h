// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hetpipe {

// How the numbers of samples are stored, and so how they come to a device: pixels 0 ... 255, which
// layers read by a PixelScale, numbers of tokens below 65,536, or floats.
enum class SampleType : std::uint8_t { pixels, tokens, floats };

constexpr std::size_t bytes_of(SampleType type) {
  return type == SampleType::pixels ? 1 : type == SampleType::tokens ? 2 : 4;
}
constexpr const char* to_string(SampleType type) {
  return type == SampleType::pixels ? "pixels" : type == SampleType::tokens ? "tokens" : "floats";
}

// What pixel x of a channel is for layers: x/255, or (x/255 - mean) / deviation, computed in float.
// Channels are the last dimension.
struct PixelScale {
  int channels = 0;  // 0: x/255; at most 4
  std::array<float, 4> mean{}, deviation{};
  bool operator==(const PixelScale&) const = default;
};
constexpr float scaled(const PixelScale& scale, std::uint8_t pixel, std::int64_t element) {
  const float value = static_cast<float>(pixel) / 255.0f;
  if (scale.channels == 0) return value;
  const auto c = static_cast<std::size_t>(element % scale.channels);
  return (value - scale.mean[c]) / scale.deviation[c];
}

}  // namespace hetpipe
