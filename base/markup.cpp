// SPDX-License-Identifier: Apache-2.0
#include "base/markup.h"

#include "base/json.h"

namespace hetpipe {

std::string markup_text(std::string_view text) {
  const bool readable = is_utf8(text);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out +=
            (byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f || (!readable && byte >= 0x80)
                ? '?'
                : c;
    }
  }
  return out;
}

}  // namespace hetpipe
