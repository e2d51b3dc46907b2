// SPDX-License-Identifier: Apache-2.0
#include "runtime/sync/past_caches.h"

#include <algorithm>

#include "base/error.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace hetpipe {

namespace {

// use(what lies there).
template <typename Use>
void with_type(const Numbers& numbers, const Use& use) {
  if (numbers.type == ElementType::bf16) return use(reinterpret_cast<const Bf16*>(numbers.lie));
  ensure(numbers.type == ElementType::fp32, "numbers of a type that nobody pushes");
  use(reinterpret_cast<const float*>(numbers.lie));
}

template <typename T>
void add_values(float* __restrict sum, const float* __restrict before, const T* __restrict values,
                float factor, std::int64_t count) {
  if (factor == 1.0f) {
    for (std::int64_t e = 0; e < count; ++e) sum[e] = before[e] + static_cast<float>(values[e]);
  } else {
    for (std::int64_t e = 0; e < count; ++e) {
      sum[e] = before[e] + factor * static_cast<float>(values[e]);
    }
  }
}

template <typename T>
void add_values(float* __restrict sum, const T* __restrict values, float factor,
                std::int64_t count) {
  if (factor == 1.0f) {
    for (std::int64_t e = 0; e < count; ++e) sum[e] += static_cast<float>(values[e]);
  } else {
    for (std::int64_t e = 0; e < count; ++e) sum[e] += factor * static_cast<float>(values[e]);
  }
}

}  // namespace

void add_to(float* sum, const float* before, Addend addend, std::int64_t count) {
  with_type(addend.values,
            [&](const auto* values) { add_values(sum, before, values, addend.factor, count); });
}

void add_to(float* sum, Addend addend, std::int64_t count) {
  with_type(addend.values,
            [&](const auto* values) { add_values(sum, values, addend.factor, count); });
}

namespace {

Addend from(Addend addend, std::int64_t first) {
  return {addend.values.from(first), addend.factor};
}

void add_both(float* sum, const float* before, Addend first, Addend second, std::int64_t count) {
  add_to(sum, before, first, count);
  if (second.values.lie != nullptr) add_to(sum, second, count);
}

}  // namespace

#ifdef __SSE2__
namespace {

constexpr std::int64_t kLane = 4;   // floats of a register
constexpr std::int64_t kLine = 16;  // of a line of the caches

__m128 load(const float* values) { return _mm_loadu_ps(values); }

// A bf16 is the upper half of a float.
__m128 load(const Bf16* values) {
  const __m128i halves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(values));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), halves));
}

template <typename T, bool two, bool scaled>
void stream(float* sum, const float* before, Addend first, Addend second, std::int64_t count) {
  const auto product = [](const Addend& addend, std::int64_t e) {
    const __m128 loaded = load(reinterpret_cast<const T*>(addend.values.lie) + e);
    return scaled ? _mm_mul_ps(_mm_set1_ps(addend.factor), loaded) : loaded;
  };
  for (std::int64_t line = 0; line < count; line += kLine) {
    for (std::int64_t e = line; e < line + kLine; e += kLane) {
      __m128 lane = _mm_add_ps(_mm_loadu_ps(before + e), product(first, e));
      if constexpr (two) lane = _mm_add_ps(lane, product(second, e));
      _mm_stream_ps(sum + e, lane);
    }
  }
}

template <typename T>
void stream_lines(float* sum, const float* before, Addend first, Addend second,
                  std::int64_t count) {
  const bool two = second.values.lie != nullptr;
  const bool scaled = first.factor != 1.0f || second.factor != 1.0f;  // times 1: the same bits
  const auto loop = two ? (scaled ? stream<T, true, true> : stream<T, true, false>)
                        : (scaled ? stream<T, false, true> : stream<T, false, false>);
  loop(sum, before, first, second, count);
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
  ensure(second.values.lie == nullptr || second.values.type == first.values.type,
         "pushes of one run are of one type");
  const auto loop =
      first.values.type == ElementType::bf16 ? stream_lines<Bf16> : stream_lines<float>;
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
