// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "base/error.h"
#include "kernels/cuda/own/simt.h"
#include "kernels/element.h"

// Elements in packs: a thread treats several neighbours, which it reads and writes 16 bytes at a
// time. An array that does not start at such a boundary, and the rest at an array's end, are read
// and written element by element; the arithmetic is the same.
namespace hetpipe::cuda {

inline constexpr unsigned kThreads = 256;  // of a block, for kernels without a better reason
inline constexpr unsigned kMostBlocks =
    4096;  // several waves on any card; more work is looped over

// Blocks for `threads` threads' work.
inline unsigned blocks_for(std::int64_t threads) {
  return static_cast<unsigned>(
      std::min<std::int64_t>((threads + kThreads - 1) / kThreads, kMostBlocks));
}

// A block for each of `pieces`.
inline unsigned one_each(std::int64_t pieces) {
  ensure(pieces <= std::numeric_limits<std::int32_t>::max(), "a grid has fewer than 2^31 blocks");
  return static_cast<unsigned>(pieces);
}

// Elements of T in 16 bytes.
template <class T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <class T, int N>
struct Pack {
  T at[N];
};

template <std::size_t bytes>
struct WordOf;
template <>
struct WordOf<16> {
  using Type = uint4;
};
template <>
struct WordOf<8> {
  using Type = uint2;
};
template <>
struct WordOf<4> {
  using Type = std::uint32_t;
};
template <>
struct WordOf<2> {
  using Type = std::uint16_t;
};

// How N elements of T are read at once.
template <class T, int N>
struct Words {
  using Word = typename WordOf<std::min<std::size_t>(16, N * sizeof(T))>::Type;
  static constexpr int count = static_cast<int>(N * sizeof(T) / sizeof(Word));
  Word at[count];
};

template <class T, int N>
HETPIPE_DEVICE bool whole(const T* place, std::int64_t left) {
  return left >= N &&
         reinterpret_cast<std::uintptr_t>(place) % sizeof(typename Words<T, N>::Word) == 0;
}

// The first N elements at `from`, or those `left` that there are and zeros.
template <int N, class T>
HETPIPE_DEVICE Pack<T, N> load(const T* from, std::int64_t left) {
  if (whole<T, N>(from, left)) {
    using Several = Words<T, N>;
    Several words;
    HETPIPE_UNROLL
    for (int k = 0; k < Several::count; ++k) {
      words.at[k] = load_word<typename Several::Word>(reinterpret_cast<const std::byte*>(from) +
                                                      k * sizeof(typename Several::Word));
    }
    return std::bit_cast<Pack<T, N>>(words);
  }
  Pack<T, N> pack{};
  HETPIPE_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k < left) pack.at[k] = from[k];
  }
  return pack;
}

template <int N, class T>
HETPIPE_DEVICE void store(T* to, const Pack<T, N>& pack, std::int64_t left) {
  if (whole<T, N>(to, left)) {
    using Several = Words<T, N>;
    const auto words = std::bit_cast<Several>(pack);
    HETPIPE_UNROLL
    for (int k = 0; k < Several::count; ++k) {
      store_word(reinterpret_cast<std::byte*>(to) + k * sizeof(typename Several::Word),
                 words.at[k]);
    }
    return;
  }
  HETPIPE_UNROLL
  for (int k = 0; k < N; ++k) {
    if (k < left) to[k] = pack.at[k];
  }
}

// body(i, count - i) for every N-th i below count.
template <int N, class Body>
HETPIPE_KERNEL void each_kernel(Body body, std::int64_t count) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x * N;
  for (std::int64_t i = (std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * N; i < count;
       i += step) {
    body(i, count - i);
  }
}

template <int N, class Body>
void each(const Body& body, std::int64_t count, On on) {
  if (count == 0) return;
  launch(each_kernel<N, Body>, blocks_for((count + N - 1) / N), kThreads, on, body, count);
}

// y[i] = f(x[i]) and z[i] = f(x[i], y[i]), in float, rounded once. Arrays may be the same.
template <class F, class X, class Y>
struct Map {
  static constexpr int pack = std::max(kPack<X>, kPack<Y>);
  F f;
  const X* x;
  Y* y;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto from = load<pack>(x + i, left);
    Pack<Y, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) to.at[k] = Y(f(static_cast<float>(from.at[k])));
    store(y + i, to, left);
  }
};
template <class F, class T>
struct Map2 {
  static constexpr int pack = kPack<T>;
  F f;
  const T* x;
  const T* y;
  T* z;

  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    const auto a = load<pack>(x + i, left);
    const auto b = load<pack>(y + i, left);
    Pack<T, pack> to;
    HETPIPE_UNROLL
    for (int k = 0; k < pack; ++k) {
      to.at[k] = T(f(static_cast<float>(a.at[k]), static_cast<float>(b.at[k])));
    }
    store(z + i, to, left);
  }
};

template <class F, class X, class Y>
void map(const F& f, const X* x, Y* y, std::int64_t count, On on) {
  using Body = Map<F, X, Y>;
  each<Body::pack>(Body{f, x, y}, count, on);
}
template <class F, class T>
void map(const F& f, const T* x, const T* y, T* z, std::int64_t count, On on) {
  using Body = Map2<F, T>;
  each<Body::pack>(Body{f, x, y, z}, count, on);
}

}  // namespace hetpipe::cuda
