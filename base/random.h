// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>

// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as
// 1, 2, 3", SC'11). A draw is a function of (key, counter) alone, so it is the same under any cut,
// order, micro-batch size, re-computation or resume.
namespace hetpipe {

using PhiloxBlock = std::array<std::uint32_t, 4>;

PhiloxBlock philox(std::uint64_t key, PhiloxBlock counter);

// Mixes parts (seed, hash of a layer's name, epoch, ...) into one key.
std::uint64_t random_key(std::initializer_list<std::uint64_t> parts);

// In [0, 1), with 24 bits.
inline float uniform_float(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Draw number `index` under `key`.
std::uint32_t random_bits(std::uint64_t key, std::uint64_t index);
float random_uniform(std::uint64_t key, std::uint64_t index);  // [0, 1)
float random_normal(std::uint64_t key, std::uint64_t index);   // mean 0, deviation 1 (Box-Muller)

// Position i of the permutation of [0, size) that `key` names: a bijection, evaluated at one place
// in constant time and memory (Feistel network with cycle walking). Needs 0 <= i < size.
std::int64_t permuted(std::uint64_t key, std::int64_t size, std::int64_t i);

}  // namespace hetpipe
