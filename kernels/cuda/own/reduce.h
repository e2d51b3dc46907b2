// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/own/aligned.h"

// Sums and other reductions inside a kernel, in an order that the shape alone decides, whatever
// the card: the same bits from run to run. No double: consumer cards have 1/64 of their rate in it,
// and two doubles per element would cost more than the memory. Long sums are compensated instead.
namespace hetpipe::cuda {

inline constexpr int kWarp = 32;

// Kahan's sum: as exact as one in twice the precision as long as nothing cancels by more than that.
// Once infinite it becomes NaN, which is as good a sign of an overflow.
struct CompensatedSum {
  float sum = 0;
  float lost = 0;

  HETPIPE_DEVICE void add(float x) {
    const float y = x - lost;
    const float t = sum + y;
    lost = (t - sum) - y;
    sum = t;
  }
};

struct Plus {
  template <class T>
  HETPIPE_DEVICE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {  // a NaN loses
  HETPIPE_DEVICE float operator()(float a, float b) const { return a > b || b != b ? a : b; }
};
struct Smaller {
  HETPIPE_DEVICE std::int64_t operator()(std::int64_t a, std::int64_t b) const {
    return a < b ? a : b;
  }
};

// Every lane gets the warp's result: a butterfly, whose lanes differ in nothing but the order of
// two operands.
template <class T, class Op>
HETPIPE_DEVICE T warp_reduce(T value, Op op) {
  for (int reach = kWarp / 2; reach > 0; reach /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, reach));
  return value;
}

// A team of kTeam (one warp, or a block of that many) reduces count values each, and every
// thread gets the results. A block's threads must all come here.
template <int kTeam, int kCount, class T, class Op>
HETPIPE_DEVICE void team_reduce(T (&values)[kCount], Op op) {
  for (int k = 0; k < kCount; ++k) values[k] = warp_reduce(values[k], op);
  if constexpr (kTeam > kWarp) {
    constexpr int kWarps = kTeam / kWarp;
    HETPIPE_SHARED(parts, T[kCount][kWarps]);
    __syncthreads();  // what an earlier call left there has been read
    if (threadIdx.x % kWarp == 0)
      for (int k = 0; k < kCount; ++k) parts[k][threadIdx.x / kWarp] = values[k];
    __syncthreads();
    for (int k = 0; k < kCount; ++k) {
      values[k] = parts[k][0];
      for (int w = 1; w < kWarps; ++w) values[k] = op(values[k], parts[k][w]);
    }
  }
}
template <int kTeam, class T, class Op>
HETPIPE_DEVICE T team_reduce(T value, Op op) {
  T values[1] = {value};
  team_reduce<kTeam>(values, op);
  return values[0];
}

}  // namespace hetpipe::cuda
