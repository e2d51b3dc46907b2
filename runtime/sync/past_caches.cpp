// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/past_caches.h"

#include <algorithm>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace hetpipe {

void add_to(float* __restrict sum, const float* __restrict before, Addend addend,
            std::int64_t count) {
  const float* __restrict const values = addend.values;
  if (addend.factor == 1.0f) {
    for (std::int64_t e = 0; e < count; ++e) sum[e] = before[e] + values[e];
  } else {
    for (std::int64_t e = 0; e < count; ++e) sum[e] = before[e] + addend.factor * values[e];
  }
}

void add_to(float* __restrict sum, Addend addend, std::int64_t count) {
  const float* __restrict const values = addend.values;
  if (addend.factor == 1.0f) {
    for (std::int64_t e = 0; e < count; ++e) sum[e] += values[e];
  } else {
    for (std::int64_t e = 0; e < count; ++e) sum[e] += addend.factor * values[e];
  }
}

namespace {

Addend from(Addend addend, std::int64_t first) {
  return {addend.values == nullptr ? nullptr : addend.values + first, addend.factor};
}

void add_both(float* sum, const float* before, Addend first, Addend second, std::int64_t count) {
  add_to(sum, before, first, count);
  if (second.values != nullptr) add_to(sum, second, count);
}

}  // namespace

#ifdef __SSE2__
namespace {

constexpr std::int64_t kLane = 4;   // floats of a register
constexpr std::int64_t kLine = 16;  // of a line of the caches

template <bool two, bool scaled>
void stream(float* sum, const float* before, Addend first, Addend second, std::int64_t count) {
  const auto product = [](const float* values, float factor) {
    const __m128 loaded = _mm_loadu_ps(values);
    return scaled ? _mm_mul_ps(_mm_set1_ps(factor), loaded) : loaded;
  };
  for (std::int64_t line = 0; line < count; line += kLine) {
    for (std::int64_t e = line; e < line + kLine; e += kLane) {
      __m128 lane = _mm_add_ps(_mm_loadu_ps(before + e), product(first.values + e, first.factor));
      if constexpr (two) lane = _mm_add_ps(lane, product(second.values + e, second.factor));
      _mm_stream_ps(sum + e, lane);
    }
  }
}

// Floats of an array before its first whole line, if it has so many.
std::int64_t head_of(const float* array, std::int64_t count) {
  const auto misplaced =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(array) / sizeof(float) % kLine);
  return std::min(count, (kLine - misplaced) % kLine);
}

}  // namespace

void copy_large(float* to, const float* from, std::int64_t count) {
  if (count <= kBeyondCaches) {
    std::copy_n(from, count, to);
    return;
  }
  const std::int64_t head = head_of(to, count);
  const std::int64_t tail = head + (count - head) / kLine * kLine;
  std::copy_n(from, head, to);
  for (std::int64_t e = head; e < tail; e += kLane) _mm_stream_ps(to + e, _mm_loadu_ps(from + e));
  _mm_sfence();
  std::copy_n(from + tail, count - tail, to + tail);
}

void add_past_caches(float* sum, const float* before, Addend first, Addend second,
                     std::int64_t count) {
  const std::int64_t head = head_of(sum, count);
  const std::int64_t lines = (count - head) / kLine * kLine;
  add_both(sum, before, first, second, head);
  const bool scaled = first.factor != 1.0f || second.factor != 1.0f;  // times 1: the same bits
  const auto loop = second.values == nullptr ? (scaled ? stream<false, true> : stream<false, false>)
                                             : (scaled ? stream<true, true> : stream<true, false>);
  loop(sum + head, before + head, from(first, head), from(second, head), lines);
  _mm_sfence();  // before anybody is told that they are there
  const std::int64_t tail = head + lines;
  add_both(sum + tail, before + tail, from(first, tail), from(second, tail), count - tail);
}
#else
void copy_large(float* to, const float* from, std::int64_t count) { std::copy_n(from, count, to); }

void add_past_caches(float* sum, const float* before, Addend first, Addend second,
                     std::int64_t count) {
  add_both(sum, before, first, second, count);
}
#endif

}  // namespace hetpipe
