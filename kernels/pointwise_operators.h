// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pointwise_math.h"

// The table of the operators of pointwise expressions (kernels/expression.h). A new one is a line
// of it; everything else follows: its value on every device, its derivative, its test against
// finite differences.
//
//   OP(name, arguments, value, flops, gradients)
//
// `value` is of x, y, z, in T: float or double. `gradients`, one for each argument, are what the
// gradient g of the value becomes: expressions of x, y, z, g and the value o in the operators of
// this table, and 0 where there is none. Numbers in them are exact floats; what needs others is an
// operator of its own (gelu_slope), which has no derivative (""). Definitions, and gradients where
// two sides meet, are PyTorch's. A truth is 1 or 0; everything but 0 is true.
#define HETPIPE_POINTWISE_OPERATORS(OP)                                                          \
  OP(add, 2, x + y, 1, "g; g")                                                                   \
  OP(sub, 2, x - y, 1, "g; -g")                                                                  \
  OP(mul, 2, x* y, 1, "g*y; g*x")                                                                \
  OP(div, 2, x / y, 1, "g/y; -g*o/y")                                                            \
  OP(neg, 1, -x, 1, "-g")                                                                        \
  OP(reciprocal, 1, T(1) / x, 1, "-g*o*o")                                                       \
  OP(abs, 1, abs(x), 1, "g*sign(x)")                                                             \
  OP(sign, 1, x > T(0) ? T(1) : x < T(0) ? T(-1) : x, 1, "0")                                    \
  OP(square, 1, x* x, 1, "g*2*x")                                                                \
  OP(sqrt, 1, sqrt(x), 4, "g/(2*o)")                                                             \
  OP(rsqrt, 1, T(1) / sqrt(x), 5, "-0.5*g*o*o*o")                                                \
  OP(pow, 2, pow(x, y), 20,                                                                      \
     "where(eq(y,0), 0, g*y*pow(x,y-1)); where(logical_and(eq(x,0), ge(y,0)), 0, g*o*log(x))")   \
  OP(exp, 1, exp(x), 10, "g*o")                                                                  \
  OP(expm1, 1, expm1(x), 12, "g*(o+1)")                                                          \
  OP(log, 1, log(x), 12, "g/x")                                                                  \
  OP(log1p, 1, log1p(x), 15, "g/(x+1)")                                                          \
  OP(sin, 1, sin(x), 12, "g*cos(x)")                                                             \
  OP(cos, 1, cos(x), 12, "-g*sin(x)")                                                            \
  OP(erf, 1, erf(x), 15, "g*erf_slope(x)")                                                       \
  OP(erf_slope, 1, T(2 * std::numbers::inv_sqrtpi) * exp(-(x * x)), 12, "")                      \
  OP(tanh, 1, tanh(x), 12, "g*(1-o*o)")                                                          \
  OP(sigmoid, 1, sigmoid(x), 12, "g*o*(1-o)")                                                    \
  OP(floor, 1, floor(x), 1, "0")                                                                 \
  OP(ceil, 1, ceil(x), 1, "0")                                                                   \
  OP(round, 1, round(x), 1, "0")                                                                 \
  OP(trunc, 1, trunc(x), 1, "0")                                                                 \
  OP(eq, 2, x == y ? T(1) : T(0), 1, "0; 0")                                                     \
  OP(ne, 2, x != y ? T(1) : T(0), 1, "0; 0")                                                     \
  OP(lt, 2, x < y ? T(1) : T(0), 1, "0; 0")                                                      \
  OP(le, 2, x <= y ? T(1) : T(0), 1, "0; 0")                                                     \
  OP(gt, 2, x > y ? T(1) : T(0), 1, "0; 0")                                                      \
  OP(ge, 2, x >= y ? T(1) : T(0), 1, "0; 0")                                                     \
  OP(logical_and, 2, x != T(0) && y != T(0) ? T(1) : T(0), 1, "0; 0")                            \
  OP(logical_or, 2, x != T(0) || y != T(0) ? T(1) : T(0), 1, "0; 0")                             \
  OP(logical_not, 1, x != T(0) ? T(0) : T(1), 1, "0")                                            \
  OP(where, 3, x != T(0) ? y : z, 1, "0; where(x, g, 0); where(x, 0, g)")                        \
  OP(maximum, 2, maximum(x, y), 1,                                                               \
     "where(gt(x,y), g, where(eq(x,y), 0.5*g, 0)); where(lt(x,y), g, where(eq(x,y), 0.5*g, 0))") \
  OP(minimum, 2, minimum(x, y), 1,                                                               \
     "where(lt(x,y), g, where(eq(x,y), 0.5*g, 0)); where(gt(x,y), g, where(eq(x,y), 0.5*g, 0))") \
  OP(clamp, 3, clamp(x, y, z), 2,                                                                \
     "where(logical_and(ge(x,y), le(x,z)), g, 0); where(logical_and(lt(x,y), lt(y,z)), g, 0); "  \
     "where(logical_or(gt(x,z), gt(y,z)), g, 0)")                                                \
  OP(relu, 1, x <= T(0) ? T(0) : x, 1, "where(le(o,0), 0, g)")                                   \
  OP(relu6, 1, clamp(x, T(0), T(6)), 2, "where(logical_and(gt(o,0), lt(o,6)), g, 0)")            \
  OP(hardtanh, 3, clamp(x, y, z), 2, "where(logical_and(gt(x,y), lt(x,z)), g, 0); 0; 0")         \
  OP(hardsigmoid, 1, clamp(x + T(3), T(0), T(6)) / T(6), 4,                                      \
     "where(logical_and(gt(x,-3), lt(x,3)), g/6, 0)")                                            \
  OP(hardswish, 1, x*(clamp(x + T(3), T(0), T(6)) / T(6)), 5, "g*hardswish_slope(x)")            \
  OP(hardswish_slope, 1, x <= T(-3) ? T(0) : x < T(3) ? x / T(3) + T(0.5) : T(1), 4, "")         \
  OP(leaky_relu, 2, x > T(0) ? x : x * y, 1, "where(gt(x,0), g, g*y); where(gt(x,0), 0, g*x)")   \
  OP(elu, 2, x > T(0) ? x : y * expm1(x), 13,                                                    \
     "where(le(o,0), g*(o+y), g); where(le(x,0), g*expm1(x), 0)")                                \
  OP(celu, 2, x > T(0) ? x : y * expm1(x / y), 14,                                               \
     "where(le(o,0), g*(o/y+1), g); where(le(x,0), g*(expm1(x/y)-x/y*exp(x/y)), 0)")             \
  OP(selu, 1, T(kSeluScale) * (x > T(0) ? x : T(kSeluAlpha) * expm1(x)), 14, "g*selu_slope(o)")  \
  OP(selu_slope, 1, x > T(0) ? T(kSeluScale) : x + T(kSeluScale * kSeluAlpha), 2, "")            \
  OP(silu, 1, x* sigmoid(x), 13, "g*silu_slope(x)")                                              \
  OP(silu_slope, 1, silu_slope(x), 17, "")                                                       \
  OP(gelu, 1, gelu(x), 20, "g*gelu_slope(x)")                                                    \
  OP(gelu_slope, 1, gelu_slope(x), 35, "")                                                       \
  OP(gelu_tanh, 1, gelu_tanh(x), 20, "g*gelu_tanh_slope(x)")                                     \
  OP(gelu_tanh_slope, 1, gelu_tanh_slope(x), 30, "")                                             \
  OP(softplus, 1, softplus(x), 25, "g*sigmoid(x)")                                               \
  OP(detach, 1, x, 0, "0")                                                                       \
  OP(mish, 1, x / (T(1) + T(2) / (exp(x) * (exp(x) + T(2)))), 40,                                \
     "g*(tanh(softplus(x)) + x*sigmoid(x)*(1-square(tanh(softplus(x)))))")

namespace hetpipe::pointwise {

// Klambauer et al. 2017, equation 14.
inline constexpr double kSeluScale = 1.0507009873554805, kSeluAlpha = 1.6732632423543772;

// Rows of the table.
enum Row : std::int16_t {
#define HETPIPE_ROW(name, arguments, value, flops, gradients) k_##name,
  HETPIPE_POINTWISE_OPERATORS(HETPIPE_ROW)
#undef HETPIPE_ROW
      kRows
};

// The value of a row.
template <std::int16_t row>
struct Operator;
#define HETPIPE_ROW(name, arguments, value, flops, gradients)                             \
  template <>                                                                             \
  struct Operator<k_##name> {                                                             \
    static constexpr int kArity = arguments;                                              \
    static constexpr bool kOfDerivatives = sizeof(gradients) == 1;                        \
    template <class T>                                                                    \
    HETPIPE_HOST_DEVICE static T apply(T x, [[maybe_unused]] T y, [[maybe_unused]] T z) { \
      return value;                                                                       \
    }                                                                                     \
  };
HETPIPE_POINTWISE_OPERATORS(HETPIPE_ROW)
#undef HETPIPE_ROW

// visit.operator()<row>() of the row `row`.
template <class Visit>
HETPIPE_HOST_DEVICE auto visit_row(std::int16_t row, const Visit& visit) {
  switch (row) {
#define HETPIPE_ROW(name, arguments, value, flops, gradients) \
  case k_##name:                                              \
    return visit.template operator()<k_##name>();
    HETPIPE_POINTWISE_OPERATORS(HETPIPE_ROW)
#undef HETPIPE_ROW
    default:
      return visit.template operator()<k_add>();
  }
}

}  // namespace hetpipe::pointwise
