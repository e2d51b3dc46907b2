// SPDX-License-Identifier: Apache-2.0
#include "runtime/pipeline/parameter_rules.h"

#include <algorithm>
#include <string_view>

namespace hetpipe {
namespace {

// Goes back to the last * where the rest does not match: that one takes a character more.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t after_star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      after_star = ++p;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (after_star != std::string_view::npos) {
      p = after_star;
      t = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string with_dots(std::string text) {
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

// (in, out), or outputs and the rest: (out, in), OIHW, (vocabulary, features).
DampedMatrix matrix_of(const ParameterEntry& entry) {
  const Shape& shape = entry.shape.shape;
  if (shape.rank() < 2 || shape[0] < 2 || entry.count < 2 * shape[0]) return {};
  return {shape[0], entry.count / shape[0], entry.inputs_first};
}

}  // namespace

bool covers(const std::string& pattern, const std::string& parameter) {
  const std::string wanted = with_dots(pattern), name = with_dots(parameter);
  for (std::size_t end = name.find('.');; end = name.find('.', end + 1)) {
    if (matches(wanted, std::string_view(name).substr(0, end))) return true;
    if (end == std::string::npos) return false;
  }
}

std::vector<OptimizedParameter> optimized_parameters(const ParameterLayout& layout,
                                                     bool vectors_decay,
                                                     const std::vector<RateOf>& rates) {
  std::vector<OptimizedParameter> parameters;
  for (const ParameterEntry& entry : layout.entries()) {
    if (!entry.is_own()) continue;
    const auto rate = std::find_if(rates.begin(), rates.end(), [&](const RateOf& of) {
      return covers(of.pattern, entry.name);
    });
    parameters.push_back({.count = entry.count,
                          .frozen = entry.frozen,
                          .decays = vectors_decay || entry.file_shape.size() >= 2,
                          .rate = rate == rates.end() ? 1.0 : rate->factor,
                          .matrix = matrix_of(entry)});
  }
  return parameters;
}

}  // namespace hetpipe
