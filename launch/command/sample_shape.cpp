// SPDX-License-Identifier: Apache-2.0
#include "launch/command/sample_shape.h"

#include <array>
#include <charconv>
#include <vector>

#include "base/text.h"

namespace hetpipe {
namespace {

constexpr int kLargestSide = 1 << 16;  // of a sample, as in data files

}  // namespace

std::optional<Shape> try_parse_sample(const std::string& text) {
  const std::vector<std::string> parts = split(text, 'x');
  if (parts.size() != 3 && parts.size() != 1) return std::nullopt;
  std::array<int, 3> extents{};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const char* end = parts[i].data() + parts[i].size();
    const auto [stop, error] = std::from_chars(parts[i].data(), end, extents[i]);
    if (error != std::errc() || stop != end || extents[i] < 1 || extents[i] > kLargestSide) {
      return std::nullopt;
    }
  }
  return parts.size() == 1 ? Shape{extents[0]} : Shape{extents[0], extents[1], extents[2]};
}

void check_sample(const std::string& text, Problems& problems) {
  if (try_parse_sample(text)) return;
  problems.add("--sample", "'" + text +
                               "' (neither rows x columns x channels nor tokens). Give three "
                               "positive numbers up to 65536, as in 28x28x1, or one.");
}

}  // namespace hetpipe
