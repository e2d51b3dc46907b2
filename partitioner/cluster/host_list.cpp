// SPDX-License-Identifier: Apache-2.0
#include <charconv>

#include "base/text.h"
#include "partitioner/cluster/cluster.h"

namespace hetpipe {
namespace {

constexpr std::size_t kMostHosts = 65536;
constexpr std::size_t kLongestName = 255;  // of a host
constexpr std::size_t kMostBrackets = 8;   // of one name
constexpr std::size_t kMostDigits = 9;     // of a number, padding included

std::optional<int> number(std::string_view digits) {
  if (digits.size() > kMostDigits) return std::nullopt;
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || digits[0] == '-') {
    return std::nullopt;
  }
  return value;
}

// "0-2,7" -> 0 1 2 7, with the padding of each range's first number.
std::optional<std::vector<std::string>> expand_ranges(std::string_view ranges) {
  std::vector<std::string> result;
  for (const std::string& range : split(ranges, ',')) {
    const std::size_t dash = range.find('-');
    const std::string first = range.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
    if (first.empty() || last.empty() || first.size() > kLongestName) return std::nullopt;
    const auto from = number(first);
    const auto to = number(last);
    if (!from || !to || *to < *from) return std::nullopt;
    if (static_cast<std::size_t>(*to - *from) + result.size() >= kMostHosts) return std::nullopt;
    for (int i = *from; i <= *to; ++i) {
      result.push_back(format("%0*d", static_cast<int>(first.size()), i));
    }
  }
  return result;
}

// One name with any number of brackets: the last bracket varies fastest.
std::optional<std::vector<std::string>> expand_name(std::string_view text,
                                                    std::size_t brackets = 0) {
  if (brackets > kMostBrackets) return std::nullopt;
  const std::size_t open = text.find('[');
  if (open == std::string_view::npos) {
    if (text.empty() || text.size() > kLongestName || text.find(']') != std::string_view::npos) {
      return std::nullopt;
    }
    return std::vector<std::string>{std::string(text)};
  }
  const std::size_t close = text.find(']', open);
  if (close == std::string_view::npos) return std::nullopt;
  const std::string_view before = text.substr(0, open);
  if (before.find(']') != std::string_view::npos) return std::nullopt;
  const auto middle = expand_ranges(text.substr(open + 1, close - open - 1));
  if (!middle) return std::nullopt;
  std::vector<std::string> tails{""};
  if (close + 1 < text.size()) {
    auto rest = expand_name(text.substr(close + 1), brackets + 1);
    if (!rest) return std::nullopt;
    tails = std::move(*rest);
  }
  if (middle->size() * tails.size() > kMostHosts) return std::nullopt;
  std::vector<std::string> result;
  for (const std::string& part : *middle) {
    for (const std::string& tail : tails) {
      if (before.size() + part.size() + tail.size() > kLongestName) return std::nullopt;
      result.push_back(std::string(before) + part + tail);
    }
  }
  return result;
}

}  // namespace

std::optional<std::vector<std::string>> try_expand_host_list(std::string_view text) {
  std::vector<std::string> result;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (depth < 0 || depth > 1) return std::nullopt;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    const auto names = expand_name(text.substr(start, i - start));
    if (!names || result.size() + names->size() > kMostHosts) return std::nullopt;
    result.insert(result.end(), names->begin(), names->end());
    start = i + 1;
  }
  return result;
}

}  // namespace hetpipe
