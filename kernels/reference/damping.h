// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include "kernels/damping.h"

// Device::damp, loop by loop.
namespace hetpipe::reference {

// Of d (rows, columns) times v.
inline std::vector<float> along_rows(const float* d, const DampedMatrix& m, const float* v) {
  std::vector<float> sums;
  for (std::int64_t r = 0; r < m.rows; ++r) {
    float lanes[kDampLanes] = {};
    for (std::int64_t c = 0; c < m.columns; ++c) {
      const float value = d[r * m.columns + c];
      lanes[c % kDampLanes] += value * v[c];
    }
    for (std::int64_t half = kDampLanes / 2; half > 0; half /= 2) {
      for (std::int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
    }
    sums.push_back(lanes[0]);
  }
  return sums;
}

inline std::vector<float> down_columns(const float* d, const DampedMatrix& m, const float* v) {
  std::vector<float> sums;
  for (std::int64_t c = 0; c < m.columns; ++c) {
    float sum = 0;
    for (std::int64_t first = 0; first < m.rows; first += kDampRows) {
      float of_block = 0;
      for (std::int64_t r = first; r < std::min(m.rows, first + kDampRows); ++r) {
        const float value = d[r * m.columns + c];
        of_block += value * v[r];
      }
      sum += of_block;
    }
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace hetpipe::reference
