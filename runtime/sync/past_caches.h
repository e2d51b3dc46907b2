// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "runtime/sync/numbers.h"

namespace hetpipe {

// What a contributor adds: factor * values[e], each product rounded by itself (factor 1: none).
struct Addend {
  Numbers values;
  float factor = 1;
};

// sum[e] = before[e] + addend; or sum[e] += addend. The arrays do not overlap.
void add_to(float* sum, const float* before, Addend addend, std::int64_t count);
void add_to(float* sum, Addend addend, std::int64_t count);

// Arrays of more floats than this fit in no cache: written in the usual way, their lines would be
// read first.
inline constexpr std::int64_t kBeyondCaches = std::int64_t{2} << 20;

// sum[e] = (before[e] + first) + second, written past the caches; one addend: values null in the
// second.
void add_past_caches(float* sum, const float* before, Addend first, Addend second,
                     std::int64_t count);

// to[e] = from[e], likewise; in the usual way up to kBeyondCaches. No overlap.
void copy_large(float* to, const float* from, std::int64_t count);

}  // namespace hetpipe
