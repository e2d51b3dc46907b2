// SPDX-License-Identifier: Apache-2.0
#include "runtime/monitoring/crc32c.h"

#include <array>

namespace hetpipe {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78;  // bits in reverse, the lowest power first

constexpr std::array<std::uint32_t, 256> make_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = (rest >> 1) ^ ((rest & 1) != 0 ? kPolynomial : 0);
    table[byte] = rest;
  }
  return table;
}
constexpr auto kTable = make_table();

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t rest = 0xffffffff;
  for (const char c : bytes)
    rest = (rest >> 8) ^ kTable[(rest ^ static_cast<std::uint8_t>(c)) & 255];
  return ~rest;
}

}  // namespace hetpipe
