// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

#include "kernels/cuda/own/pack.h"

// Packs of a matrix whose rows all begin at 16 bytes: moves_in_packs is asked once for all, and no
// thread looks at an address again, so that several loads can be in flight. Where it says no,
// V = 1: single elements. Parameters may lie anywhere (behind others in one array): they are loaded
// with a look at the address (load, store of pack.h).
namespace hetpipe::cuda {

// Whether rows of `extent` elements of T, one behind the other, can be moved in packs of 16 bytes
// from all of these addresses; null is nothing to move.
template <class T>
bool moves_in_packs(std::int64_t extent, std::initializer_list<const void*> addresses) {
  if (extent % kPack<T> != 0) return false;
  for (const void* address : addresses)
    if (reinterpret_cast<std::uintptr_t>(address) % 16 != 0) return false;
  return true;
}

template <int V, class T>
HETPIPE_DEVICE Pack<T, V> load_pack(const T* from) {
  using All = Words<T, V>;
  All words;
  HETPIPE_UNROLL
  for (int k = 0; k < All::count; ++k) {
    const auto* place = reinterpret_cast<const std::byte*>(from) + k * sizeof(words.at[0]);
    words.at[k] = load_word<typename All::Word>(place);
  }
  return std::bit_cast<Pack<T, V>>(words);
}

template <class T, int V>
HETPIPE_DEVICE void store_pack(T* to, const Pack<T, V>& pack) {
  using All = Words<T, V>;
  const auto words = std::bit_cast<All>(pack);
  HETPIPE_UNROLL
  for (int k = 0; k < All::count; ++k)
    store_word(reinterpret_cast<std::byte*>(to) + k * sizeof(words.at[0]), words.at[k]);
}

}  // namespace hetpipe::cuda
