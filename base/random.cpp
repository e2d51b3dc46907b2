// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace hetpipe {

std::uint64_t random_key(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t state = 0x243F6A8885A308D3ULL;
  for (std::uint64_t part : parts) {  // splitmix64 over a running sum
    state += part + 0x9E3779B97F4A7C15ULL;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
    state ^= state >> 31;
  }
  return state;
}

std::uint32_t random_bits(std::uint64_t key, std::uint64_t index) {
  return random_block(key, index / 4)[index % 4];
}

float random_uniform(std::uint64_t key, std::uint64_t index) {
  return uniform_float(random_bits(key, index));
}

float random_normal(std::uint64_t key, std::uint64_t index) {
  const PhiloxBlock b = philox(
      key, {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 1, 0});
  const double u = (b[0] + 1.0) * 0x1p-32;  // (0, 1]
  const double angle = 2.0 * std::numbers::pi * (b[1] * 0x1p-32);
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(angle));
}

std::int64_t permuted(std::uint64_t key, std::int64_t size, std::int64_t i) {
  ensure(0 <= i && i < size, "permuted: index outside the set");
  if (size == 1) return 0;
  // A balanced Feistel network over 2*half bits, the smallest even width that covers `size`.
  const int bits = std::bit_width(static_cast<std::uint64_t>(size - 1));
  const int half = (bits + 1) / 2;
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  std::uint64_t x = static_cast<std::uint64_t>(i);
  do {
    std::uint64_t left = x >> half;
    std::uint64_t right = x & mask;
    for (std::uint32_t round = 0; round < 6; ++round) {
      const PhiloxBlock b = philox(key, {static_cast<std::uint32_t>(right),
                                         static_cast<std::uint32_t>(right >> 32), round, 2});
      const std::uint64_t next = left ^ (b[0] & mask);
      left = right;
      right = next;
    }
    x = (left << half) | right;
  } while (x >= static_cast<std::uint64_t>(size));
  return static_cast<std::int64_t>(x);
}

}  // namespace hetpipe
