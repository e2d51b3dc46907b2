// SPDX-License-Identifier: Apache-2.0
#include "partitioner/cluster/device_type.h"

namespace hetpipe {
namespace {

// Of ASCII alone, whatever the locale says.
char normal_letter(char c) {
  if ('A' <= c && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9') ? c : '\0';
}

// The next letter that counts, from `at` on, which is left behind it; 0 at the end.
char next_letter(std::string_view name, std::size_t& at) {
  while (at < name.size()) {
    if (const char c = normal_letter(name[at++])) return c;
  }
  return '\0';
}

}  // namespace

std::string normal_device_type(std::string_view name) {
  std::string letters;
  for (std::size_t at = 0; const char c = next_letter(name, at);) letters += c;
  return letters;
}

bool same_device_type(std::string_view a, std::string_view b) {
  if (a == b) return true;
  std::size_t in_a = 0;
  std::size_t in_b = 0;
  for (bool first = true;; first = false) {
    const char c = next_letter(a, in_a);
    if (c != next_letter(b, in_b)) return false;
    if (c == '\0') return !first;  // a name without any letter is none
  }
}

}  // namespace hetpipe
