// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hetpipe {

// The change of a weight matrix as Device::damp sees it, row-major.
struct DampedMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool inputs_first = false;  // rows belong to inputs, columns to outputs; else the other way round

  std::int64_t inputs() const { return inputs_first ? rows : columns; }
  std::int64_t outputs() const { return inputs_first ? columns : rows; }
};

// Orders of damp's sums, which are float:
//   along a row     element c goes to sum c % kDampLanes, in order; then sum l takes sum l + 16,
//                   l + 8, l + 4, l + 2 and l + 1
//   down a column   blocks of kDampRows rows in order; then the blocks, in order, from 0
inline constexpr std::int64_t kDampLanes = 32;
inline constexpr std::int64_t kDampRows = 64;

}  // namespace hetpipe
