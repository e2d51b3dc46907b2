// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/pointwise_loops.h"

#include <algorithm>
#include <array>

#include "kernels/cpu/loops.h"
#include "kernels/pointwise_operators.h"

#ifdef __clang__  // makes one function per width of plain functions, not of templates
#define HETPIPE_OPERATOR_WIDTHS
#else
#define HETPIPE_OPERATOR_WIDTHS HETPIPE_EVERY_WIDTH
#endif

namespace hetpipe::loops {
namespace {

template <std::int16_t row>
HETPIPE_OPERATOR_WIDTHS void operator_loop(float* out, const float* x,
                                           [[maybe_unused]] const float* y,
                                           [[maybe_unused]] const float* z, std::int64_t count) {
  using Op = pointwise::Operator<row>;
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    if constexpr (Op::kArity == 1) {
      out[i] = Op::template apply<float>(x[i], 0.0f, 0.0f);
    } else if constexpr (Op::kArity == 2) {
      out[i] = Op::template apply<float>(x[i], y[i], 0.0f);
    } else {
      out[i] = Op::template apply<float>(x[i], y[i], z[i]);
    }
  }
}

template <std::int16_t row>
HETPIPE_OPERATOR_WIDTHS void scaled_operator_loop(float* out, const float* x, const float* y,
                                                  const float*, std::int64_t count) {
  HETPIPE_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    out[i] = y[i] * pointwise::Operator<row>::template apply<float>(x[i], 0.0f, 0.0f);
  }
}

// The sum of count floats in double, in lanes that do not depend on the width of vectors.
HETPIPE_EVERY_WIDTH double sum_of(const float* from, std::int64_t count) {
  constexpr std::int64_t kLanes = 32;
  std::array<double, kLanes> lanes{};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::int64_t l = 0; l < kLanes; ++l)
      lanes[static_cast<std::size_t>(l)] += static_cast<double>(from[i + l]);
  double sum = 0;
  for (; i < count; ++i) sum += static_cast<double>(from[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

HETPIPE_EVERY_WIDTH void sum_plain(double* __restrict sums, const float* __restrict from,
                                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) sums[i] += static_cast<double>(from[i]);
}

}  // namespace

PointwiseLoop pointwise_loop(std::int16_t row) {
  return pointwise::visit_row(row,
                              []<std::int16_t r>() -> PointwiseLoop { return operator_loop<r>; });
}

PointwiseLoop scaled_loop(std::int16_t row) {
  return pointwise::visit_row(row, []<std::int16_t r>() -> PointwiseLoop {
    using Op = pointwise::Operator<r>;
    if constexpr (Op::kOfDerivatives && Op::kArity == 1) {
      return scaled_operator_loop<r>;
    } else {
      return nullptr;
    }
  });
}

HETPIPE_EVERY_WIDTH void load_strided(float* __restrict to, const float* __restrict from,
                                      std::int64_t stride, std::int64_t count) {
  if (stride == 1) {
    std::copy_n(from, count, to);
  } else if (stride == -1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[-i];
  } else if (stride == 2) {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[2 * i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

void load_by_table(float* __restrict to, const float* __restrict from, std::int64_t stride,
                   const std::int32_t* __restrict table, std::int64_t table_stride,
                   std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride + table[i * table_stride]];
}

void store_strided(float* __restrict to, std::int64_t stride, const float* __restrict from,
                   std::int64_t count) {
  if (stride == 1) {
    std::copy_n(from, count, to);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = from[i];
  }
}

HETPIPE_EVERY_WIDTH void add_strided(float* __restrict to, std::int64_t stride,
                                     const float* __restrict from, std::int64_t count) {
  if (stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) to[i] += from[i];
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] += from[i];
  }
}

void sum_strided(double* __restrict sums, std::int64_t stride, const float* __restrict from,
                 std::int64_t count) {
  if (stride == 1) {
    sum_plain(sums, from, count);
  } else if (stride == 0) {
    *sums += sum_of(from, count);
  } else {
    for (std::int64_t i = 0; i < count; ++i) sums[i * stride] += static_cast<double>(from[i]);
  }
}

void sum_by_table(double* __restrict sums, std::int64_t stride,
                  const std::int32_t* __restrict table, std::int64_t table_stride,
                  const float* __restrict from, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    sums[i * stride + table[i * table_stride]] += static_cast<double>(from[i]);
  }
}

HETPIPE_EVERY_WIDTH void round_sums(float* __restrict to, const double* __restrict sums,
                                    std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(sums[i]);
}

}  // namespace hetpipe::loops
