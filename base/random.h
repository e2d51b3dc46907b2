// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A draw is a function of (key, counter), so it is the same for any partition,
// order, micro-batch size, recomputation or resume.
namespace hetpipe {

using PhiloxBlock = std::array<std::uint32_t, 4>;

// constexpr, so that GPUs run it too.
constexpr PhiloxBlock philox(std::uint64_t key, PhiloxBlock c) {
  std::uint32_t k0 = static_cast<std::uint32_t>(key);
  std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c[0];
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<std::uint32_t>(p1),
         static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<std::uint32_t>(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Mixes parts (seed, hash of a layer's name, epoch, ...) into one key.
std::uint64_t random_key(std::initializer_list<std::uint64_t> parts);

// In [0, 1), with 24 bits.
constexpr float uniform_float(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

// The draws 4 * block to 4 * block + 3 under `key`.
constexpr PhiloxBlock random_block(std::uint64_t key, std::uint64_t block) {
  return philox(key,
                {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0});
}

// Draw number `index` under `key`.
std::uint32_t random_bits(std::uint64_t key, std::uint64_t index);
float random_uniform(std::uint64_t key, std::uint64_t index);  // [0, 1)
float random_normal(std::uint64_t key, std::uint64_t index);   // mean 0, deviation 1 (Box-Muller)

// Position i of the permutation of [0, size) that `key` names: a bijection, evaluated at one place
// in constant time and memory (Feistel network with cycle walking). Needs 0 <= i < size.
std::int64_t permuted(std::uint64_t key, std::int64_t size, std::int64_t i);

}  // namespace hetpipe
