// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cctype>
#include <string_view>

namespace hetpipe {

// Without the white space at both ends.
inline std::string_view trimmed(std::string_view text) {
  const auto space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && space(text.front())) text.remove_prefix(1);
  while (!text.empty() && space(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace hetpipe
