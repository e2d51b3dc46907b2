// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"

#include <cstdio>

namespace hetpipe {

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t start) {
  std::uint64_t hash = start;
  for (std::byte b : bytes) {
    hash ^= std::to_integer<std::uint64_t>(b);
    hash *= 0x100000001b3ULL;
  }
  return hash;
}

std::uint64_t hash_text(std::string_view text, std::uint64_t start) {
  return hash_bytes(std::as_bytes(std::span(text.data(), text.size())), start);
}

std::string to_hex(std::uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

}  // namespace hetpipe
