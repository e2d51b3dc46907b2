// SPDX-License-Identifier: Apache-2.0
#include "partitioner/toml_file.h"

#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace hetpipe {

std::string toml_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += format("\\u%04X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string toml_real(double value) {
  ensure(std::isfinite(value), "a file's number must be finite");
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return std::string(buffer.data(), end);
}

std::string toml_bytes(std::int64_t bytes) {
  std::string text = std::to_string(bytes);
  for (int at = static_cast<int>(text.size()) - 3; at > (bytes < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), "_");
  }
  return text;
}

std::string toml_strings(const std::vector<std::string>& texts) {
  std::vector<std::string> quoted;
  for (const std::string& text : texts) quoted.push_back(toml_string(text));
  return "[" + join(quoted, ", ") + "]";
}

}  // namespace hetpipe
