// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace hetpipe {

// What a contributor adds: factor * values[e], each product rounded by itself (factor 1: none).
struct Addend {
  const float* values = nullptr;
  float factor = 1;
};

// sum[e] = before[e] + addend; or sum[e] += addend. The arrays do not overlap.
void add_to(float* sum, const float* before, Addend addend, std::int64_t count);
void add_to(float* sum, Addend addend, std::int64_t count);

// sum[e] = (before[e] + first) + second; one addend: values null in the second. Written past the
// caches: for arrays that fit in none, whose lines would otherwise be read before they are written.
void add_past_caches(float* sum, const float* before, Addend first, Addend second,
                     std::int64_t count);

}  // namespace hetpipe
