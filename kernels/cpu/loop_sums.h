// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "kernels/cpu/loops.h"

// Sums of floats as the CPU device's loops form them: eight terms in float, as a tree, before they
// meet a running sum in double. An eighth of the conversions, and three roundings that do not add
// up. To be inlined into functions of every width.
namespace hetpipe::loops {

// Rows whose terms are added up in float.
constexpr std::int64_t kTogether = 8;

// sums[c] += terms(row, c) over the rows, for `kTogether` rows at a time and then one by one. All
// terms(row, c)[k] are floats, and go into sums[k][c].
template <std::size_t kSums, class Terms>
inline __attribute__((always_inline)) void add_rows(const std::array<double*, kSums>& sums,
                                                    std::int64_t rows, std::int64_t columns,
                                                    const Terms& terms) {
  std::int64_t r = 0;
  for (; r + kTogether <= rows; r += kTogether) {
    HETPIPE_INDEPENDENT
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::array<float, kSums> a = terms(r, c), b = terms(r + 1, c), d = terms(r + 2, c),
                                     e = terms(r + 3, c), f = terms(r + 4, c), g = terms(r + 5, c),
                                     h = terms(r + 6, c), i = terms(r + 7, c);
      for (std::size_t k = 0; k < kSums; ++k) {
        sums[k][c] +=
            static_cast<double>(((a[k] + b[k]) + (d[k] + e[k])) + ((f[k] + g[k]) + (h[k] + i[k])));
      }
    }
  }
  for (; r < rows; ++r) {
    HETPIPE_INDEPENDENT
    for (std::int64_t c = 0; c < columns; ++c) {
      const std::array<float, kSums> a = terms(r, c);
      for (std::size_t k = 0; k < kSums; ++k) sums[k][c] += static_cast<double>(a[k]);
    }
  }
}

// Running sums along a row: element i goes into lane i % kLanes.
constexpr std::int64_t kLanes = 16;

// The sums of terms(i)[k] along a row: of 8 * kLanes elements, those of a lane in float; then lanes
// one by one; at the end the lanes as a tree.
template <std::size_t kSums, class Terms>
inline __attribute__((always_inline)) std::array<double, kSums> sum_along(std::int64_t count,
                                                                          const Terms& terms) {
  double lanes[kSums][kLanes] = {};
  std::int64_t i = 0;
  for (; i + kTogether * kLanes <= count; i += kTogether * kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const std::array<float, kSums> a = terms(i + l), b = terms(i + l + kLanes),
                                     d = terms(i + l + 2 * kLanes), e = terms(i + l + 3 * kLanes),
                                     f = terms(i + l + 4 * kLanes), g = terms(i + l + 5 * kLanes),
                                     h = terms(i + l + 6 * kLanes), j = terms(i + l + 7 * kLanes);
      for (std::size_t k = 0; k < kSums; ++k) {
        lanes[k][l] +=
            static_cast<double>(((a[k] + b[k]) + (d[k] + e[k])) + ((f[k] + g[k]) + (h[k] + j[k])));
      }
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const std::array<float, kSums> a = terms(i + l);
      for (std::size_t k = 0; k < kSums; ++k) lanes[k][l] += static_cast<double>(a[k]);
    }
  }
  for (std::int64_t l = 0; i < count; ++i, ++l) {
    const std::array<float, kSums> a = terms(i);
    for (std::size_t k = 0; k < kSums; ++k) lanes[k][l] += static_cast<double>(a[k]);
  }
  std::array<double, kSums> sums;
  for (std::size_t k = 0; k < kSums; ++k) {
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t l = 0; l < half; ++l) lanes[k][l] += lanes[k][l + half];
    }
    sums[k] = lanes[k][0];
  }
  return sums;
}

}  // namespace hetpipe::loops
