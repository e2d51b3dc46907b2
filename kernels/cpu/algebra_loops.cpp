// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/algebra_loops.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/cpu/loops.h"
#include "kernels/pointwise_math.h"

namespace hetpipe::loops {
namespace {

constexpr std::int64_t kLanes = 32;
using Lanes = std::array<float, kLanes>;

// Half of the lanes, in registers: of any width, by the same operations.
using Wide = float __attribute__((vector_size(64)));
using WideInMemory = float __attribute__((vector_size(64), aligned(4), may_alias));
static_assert(2 * sizeof(Wide) == sizeof(Lanes));
#define HETPIPE_WIDE(x) (*reinterpret_cast<const WideInMemory*>(x))

// In halves, one vector on another.
[[gnu::always_inline]] inline double total(const Lanes& lanes) {
  std::array<double, kLanes / 2> halves;
  for (std::size_t l = 0; l < kLanes / 2; ++l)
    halves[l] = static_cast<double>(lanes[l]) + static_cast<double>(lanes[l + kLanes / 2]);
  for (std::size_t half = kLanes / 4; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) halves[l] += halves[l + half];
  return halves[0];
}

// The rest of a row, and `beyond` in the lanes after it.
[[gnu::always_inline]] inline Lanes rest_of(const float* x, std::int64_t count, float beyond) {
  Lanes lanes;
  lanes.fill(beyond);
  std::copy_n(x, count, lanes.begin());
  return lanes;
}

}  // namespace

HETPIPE_EVERY_WIDTH float row_maximum(const float* x, std::int64_t count) {
  Lanes lanes;
  lanes.fill(x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l)
      lanes[l] = pointwise::maximum(lanes[l], x[i + static_cast<std::int64_t>(l)]);
  const Lanes rest = rest_of(x + i, count - i, x[0]);
  for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = pointwise::maximum(lanes[l], rest[l]);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lanes[l] = pointwise::maximum(lanes[l], lanes[l + half]);
  return lanes[0];
}

HETPIPE_EVERY_WIDTH float row_minimum(const float* x, std::int64_t count) {
  Lanes lanes;
  lanes.fill(x[0]);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t l = 0; l < kLanes; ++l)
      lanes[l] = pointwise::minimum(lanes[l], x[i + static_cast<std::int64_t>(l)]);
  const Lanes rest = rest_of(x + i, count - i, x[0]);
  for (std::size_t l = 0; l < kLanes; ++l) lanes[l] = pointwise::minimum(lanes[l], rest[l]);
  for (std::size_t half = kLanes / 2; half > 0; half /= 2)
    for (std::size_t l = 0; l < half; ++l) lanes[l] = pointwise::minimum(lanes[l], lanes[l + half]);
  return lanes[0];
}

HETPIPE_EVERY_WIDTH void raise(float* __restrict most, const float* __restrict x,
                               std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) most[i] = pointwise::maximum(most[i], x[i]);
}
HETPIPE_EVERY_WIDTH void lower(float* __restrict least, const float* __restrict x,
                               std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) least[i] = pointwise::minimum(least[i], x[i]);
}

HETPIPE_EVERY_WIDTH double shifted_exponentials(float* y, const float* x, float shift,
                                                std::int64_t count) {
  const std::int64_t i = count - count % kLanes;
  Lanes rest = rest_of(x + i, count - i, -HUGE_VALF);
  HETPIPE_INDEPENDENT
  for (std::int64_t j = 0; j < i; ++j) y[j] = pointwise::exp(x[j] - shift);
  for (std::size_t l = 0; l < kLanes; ++l) rest[l] = pointwise::exp(rest[l] - shift);
  std::copy_n(rest.begin(), count - i, y + i);
  Wide low = HETPIPE_WIDE(rest.data()), high = HETPIPE_WIDE(rest.data() + kLanes / 2);
  for (std::int64_t j = 0; j < i; j += kLanes) {
    low += HETPIPE_WIDE(y + j);
    high += HETPIPE_WIDE(y + j + kLanes / 2);
  }
  *reinterpret_cast<WideInMemory*>(rest.data()) = low;
  *reinterpret_cast<WideInMemory*>(rest.data() + kLanes / 2) = high;
  return total(rest);
}

HETPIPE_EVERY_WIDTH double sum_of_exponentials(const float* x, float shift, std::int64_t count) {
  Lanes lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l)
      lanes[static_cast<std::size_t>(l)] += pointwise::exp(x[i + l] - shift);
  const Lanes rest = rest_of(x + i, count - i, -HUGE_VALF);
  for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += pointwise::exp(rest[l] - shift);
  return total(lanes);
}

HETPIPE_EVERY_WIDTH void shift_row(float* y, const float* x, float shift, std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = x[i] - shift;
}

void softmax_row(float* y, const float* x, std::int64_t count, bool safe) {
  const float most = row_maximum(x, count);
  if (safe && most == -HUGE_VALF) {
    std::fill_n(y, count, 0.0f);
    return;
  }
  const double sum = shifted_exponentials(y, x, most, count);
  scale(y, static_cast<float>(1 / sum), count);
}

HETPIPE_EVERY_WIDTH double row_sum(const float* x, std::int64_t count) {
  std::array<double, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l)
      lanes[static_cast<std::size_t>(l)] += static_cast<double>(x[i + l]);
  for (std::int64_t j = i; j < count; ++j)
    lanes[static_cast<std::size_t>(j - i)] += static_cast<double>(x[j]);
  double sum = 0;
  for (const double lane : lanes) sum += lane;
  return sum;
}

HETPIPE_EVERY_WIDTH double row_dot(const float* x, const float* y, std::int64_t count) {
  const std::int64_t whole = count - count % kLanes;
  Lanes lanes = rest_of(x + whole, count - whole, 0);
  const Lanes other = rest_of(y + whole, count - whole, 0);
  Wide low = HETPIPE_WIDE(lanes.data()) * HETPIPE_WIDE(other.data());
  Wide high = HETPIPE_WIDE(lanes.data() + kLanes / 2) * HETPIPE_WIDE(other.data() + kLanes / 2);
  for (std::int64_t i = 0; i < whole; i += kLanes) {
    low += HETPIPE_WIDE(x + i) * HETPIPE_WIDE(y + i);
    high += HETPIPE_WIDE(x + i + kLanes / 2) * HETPIPE_WIDE(y + i + kLanes / 2);
  }
  *reinterpret_cast<WideInMemory*>(lanes.data()) = low;
  *reinterpret_cast<WideInMemory*>(lanes.data() + kLanes / 2) = high;
  return total(lanes);
}

HETPIPE_EVERY_WIDTH void softmax_gradient_row(float* dx, const float* y, const float* dy,
                                              float mean, std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) dx[i] = y[i] * (dy[i] - mean);
}

HETPIPE_EVERY_WIDTH void log_softmax_gradient_row(float* dx, const float* y, const float* dy,
                                                  float sum, std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) dx[i] = dy[i] - pointwise::exp(y[i]) * sum;
}

HETPIPE_EVERY_WIDTH void add_row(float* __restrict y, const float* __restrict x,
                                 std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += x[i];
}

HETPIPE_EVERY_WIDTH void drop_row(float* y, const float* x, const std::uint8_t* __restrict kept,
                                  float factor, std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) y[i] = kept[i] != 0 ? x[i] * factor : 0.0f;
}

HETPIPE_EVERY_WIDTH void accumulate_row(float* __restrict y, double* __restrict sums,
                                        const float* __restrict x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    sums[i] += static_cast<double>(x[i]);
    y[i] = static_cast<float>(sums[i]);
  }
}

HETPIPE_EVERY_WIDTH void give_to_best(float* __restrict dx, const float* __restrict x,
                                      const float* __restrict best,
                                      const float* __restrict gradient, std::int64_t step,
                                      std::int64_t count) {
  if (step == 0) {
    const float b = *best, g = *gradient;
    const bool nan = b != b;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool won = (x[i] == b) | (nan & (x[i] != x[i]));
      dx[i] = won ? g : 0.0f;
    }
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const bool won = (x[i] == best[i]) | ((x[i] != x[i]) & (best[i] != best[i]));
    dx[i] = won ? gradient[i] : 0.0f;
  }
}

HETPIPE_EVERY_WIDTH void count_best(float* __restrict counts, const float* __restrict x,
                                    const float* __restrict best, std::int64_t step,
                                    std::int64_t count) {
  if (step == 0) {
    const float b = *best;
    const bool nan = b != b;
    std::int32_t won = 0;
    for (std::int64_t i = 0; i < count; ++i) won += (x[i] == b) | (nan & (x[i] != x[i]));
    *counts += static_cast<float>(won);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const bool won = (x[i] == best[i]) | ((x[i] != x[i]) & (best[i] != best[i]));
    counts[i] += won ? 1.0f : 0.0f;
  }
}

}  // namespace hetpipe::loops
