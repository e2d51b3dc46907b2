// SPDX-License-Identifier: Apache-2.0
#include "partitioner/rate_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>

namespace hetpipe {
namespace {

constexpr double kBitsPerByte = 8;

struct Ending {
  std::string_view text;
  double bytes;
};
// The longest first: "Gbit/s" also ends as "t/s" does.
constexpr std::array kEndings{Ending{"bit/s", 1 / kBitsPerByte}, Ending{"bps", 1 / kBitsPerByte},
                              Ending{"b/s", 1 / kBitsPerByte}, Ending{"B/s", 1}};

std::optional<double> factor_of(std::string_view prefix) {
  constexpr std::string_view kPrefixes = "kMGT";
  if (prefix.empty()) return 1;
  if (prefix.front() == 'K') return factor_of("k" + std::string(prefix.substr(1)));
  const std::size_t power = kPrefixes.find(prefix.front());
  const bool binary = prefix.size() == 2 && prefix[1] == 'i';
  if (power == std::string_view::npos || (prefix.size() != 1 && !binary)) return std::nullopt;
  return std::pow(binary ? 1024.0 : 1000.0, static_cast<double>(power + 1));
}

}  // namespace

std::optional<double> try_parse_rate(std::string_view text) {
  for (const Ending& ending : kEndings) {
    if (!text.ends_with(ending.text)) continue;
    text.remove_suffix(ending.text.size());
    double number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    if (text.starts_with(' ')) text.remove_prefix(1);
    const auto factor = factor_of(text);
    if (!factor) return std::nullopt;
    return number * *factor * ending.bytes;
  }
  return std::nullopt;
}

}  // namespace hetpipe
