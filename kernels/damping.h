// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/element.h"

namespace hetpipe {

// The change of a weight matrix as Device::damp sees it, row-major.
struct DampedMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool inputs_first = false;  // rows belong to inputs, columns to outputs; else the other way round

  std::int64_t inputs() const { return inputs_first ? rows : columns; }
  std::int64_t outputs() const { return inputs_first ? columns : rows; }
};

struct DampOptions {
  float factor = 0;       // share that each direction loses
  int directions = 1;     // one after the other
  std::int64_t step = 0;  // other starts in each

  // No more than half of those that the matrix has: it keeps some that are as they were.
  int directions_of(const DampedMatrix& m) const {
    return static_cast<int>(
        std::clamp<std::int64_t>(std::min(m.rows, m.columns) / 2, 1, directions));
  }
};

// Where the search for a direction starts, at input i: from equal ones for the first, else from
// signs that are as good as random.
HETPIPE_HOST_DEVICE inline float damp_start(std::int64_t i, int direction, std::int64_t step) {
  if (direction == 0) return 1;
  std::uint64_t x = static_cast<std::uint64_t>(i) + (static_cast<std::uint64_t>(step) << 24) +
                    (static_cast<std::uint64_t>(direction) << 56);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;  // Steele et al., "Fast splittable pseudorandom number
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;  // generators", 2014: the mixing of SplitMix64
  x ^= x >> 31;
  return (x & 1) != 0 ? 1.0f : -1.0f;
}

// Orders of damp's sums, which are float:
//   along a row     element c goes to sum c % kDampLanes, in order; then sum l takes sum l + 16,
//                   l + 8, l + 4, l + 2 and l + 1
//   down a column   blocks of kDampRows rows in order; then the blocks, in order, from 0
inline constexpr std::int64_t kDampLanes = 32;
inline constexpr std::int64_t kDampRows = 64;

}  // namespace hetpipe
