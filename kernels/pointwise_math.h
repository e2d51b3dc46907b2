// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "kernels/element.h"

// The functions that the operators of kernels/pointwise_operators.h are made of: in double the
// library's, which defines them; in float, on the host, polynomials without branches, so that a
// loop over them is vectorised, good to about two units in the last place. They hold for every
// float: infinities, zeros, subnormal numbers; a NaN stays one.
#ifdef __GNUC__  // a loop with a call in it is not vectorised
#define HETPIPE_POINTWISE_INLINE HETPIPE_HOST_DEVICE __attribute__((always_inline)) inline
#else
#define HETPIPE_POINTWISE_INLINE HETPIPE_HOST_DEVICE inline
#endif

namespace hetpipe::pointwise {

HETPIPE_POINTWISE_INLINE double exp(double x) { return std::exp(x); }
HETPIPE_POINTWISE_INLINE double expm1(double x) { return std::expm1(x); }
HETPIPE_POINTWISE_INLINE double log(double x) { return std::log(x); }
HETPIPE_POINTWISE_INLINE double log1p(double x) { return std::log1p(x); }
HETPIPE_POINTWISE_INLINE double log1p_of_part(double x) { return std::log1p(x); }
HETPIPE_POINTWISE_INLINE double tanh(double x) { return std::tanh(x); }
HETPIPE_POINTWISE_INLINE double erf(double x) { return std::erf(x); }
HETPIPE_POINTWISE_INLINE double sin(double x) { return std::sin(x); }
HETPIPE_POINTWISE_INLINE double cos(double x) { return std::cos(x); }
HETPIPE_POINTWISE_INLINE double pow(double x, double y) { return std::pow(x, y); }
HETPIPE_POINTWISE_INLINE float pow(float x, float y) { return std::pow(x, y); }

// Rounded once, on every processor; slow where it has no such instruction.
HETPIPE_POINTWISE_INLINE float fma(float x, float y, float z) { return std::fma(x, y, z); }
HETPIPE_POINTWISE_INLINE double fma(double x, double y, double z) { return std::fma(x, y, z); }

#ifdef __CUDA_ARCH__

HETPIPE_POINTWISE_INLINE float exp(float x) { return ::expf(x); }
HETPIPE_POINTWISE_INLINE float expm1(float x) { return ::expm1f(x); }
HETPIPE_POINTWISE_INLINE float log(float x) { return ::logf(x); }
HETPIPE_POINTWISE_INLINE float log1p(float x) { return ::log1pf(x); }
HETPIPE_POINTWISE_INLINE float log1p_of_part(float x) { return ::log1pf(x); }
HETPIPE_POINTWISE_INLINE float tanh(float x) { return ::tanhf(x); }
HETPIPE_POINTWISE_INLINE float erf(float x) { return ::erff(x); }
HETPIPE_POINTWISE_INLINE float sin(float x) { return ::sinf(x); }
HETPIPE_POINTWISE_INLINE float cos(float x) { return ::cosf(x); }

#else

// 2^n for -126 <= n <= 127.
HETPIPE_POINTWISE_INLINE float power_of_two(std::int32_t n) {
  return std::bit_cast<float>((n + 127) << 23);
}

// The nearest integer of |x| < 2^22, as a float and in the low bits of `bits`.
HETPIPE_POINTWISE_INLINE float nearest(float x, std::int32_t& n) {
  constexpr float kMagic = 0x1.8p23f;
  const float shifted = x + kMagic;
  n = std::bit_cast<std::int32_t>(shifted) - std::bit_cast<std::int32_t>(kMagic);
  return shifted - kMagic;
}

// e^x = 2^n e^r, |r| <= ln(2)/2; e^r by its Taylor polynomial fitted at the edges (Cephes' expf).
HETPIPE_POINTWISE_INLINE float exp(float x) {
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  std::int32_t n = 0;
  const float whole = nearest(x * 1.44269504088896341f, n);
  const float r = fma(whole, 2.12194440e-4f, fma(whole, -0.693359375f, x));
  float p = 1.9875691500e-4f;
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p, r * r, r) + 1.0f;
  // In two factors: 2^n alone is no float at both ends.
  const std::int32_t half = n >> 1;
  return p * power_of_two(half) * power_of_two(n - half);
}

// By its Taylor series near 0, where e^x - 1 would cancel.
HETPIPE_POINTWISE_INLINE float expm1(float x) {
  float p = 1.0f / 5040;
  p = fma(p, x, 1.0f / 720);
  p = fma(p, x, 1.0f / 120);
  p = fma(p, x, 1.0f / 24);
  p = fma(p, x, 1.0f / 6);
  p = fma(p, x, 0.5f);
  p = fma(p, x * x, x);
  const float large = exp(x) - 1.0f;
  return std::abs(x) < 0.35f ? p : large;
}

// Of a positive normal number x = 2^n m, m in [sqrt(1/2), sqrt(2)): n ln(2) + log(m), the latter
// Cephes' logf. `exponent` is added to n.
HETPIPE_POINTWISE_INLINE float log_of_normal(float x, float exponent) {
  // Moves sqrt(1/2) to a power of two, so that the exponent's bits are n.
  const std::int32_t bits = std::bit_cast<std::int32_t>(x) - 0x3f3504f3;
  const float n = static_cast<float>(bits >> 23) + exponent;
  const float m = std::bit_cast<float>((bits & 0x007fffff) + 0x3f3504f3) - 1.0f;
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = fma(p, m, -1.1514610310e-1f);
  p = fma(p, m, 1.1676998740e-1f);
  p = fma(p, m, -1.2420140846e-1f);
  p = fma(p, m, 1.4249322787e-1f);
  p = fma(p, m, -1.6668057665e-1f);
  p = fma(p, m, 2.0000714765e-1f);
  p = fma(p, m, -2.4999993993e-1f);
  p = fma(p, m, 3.3333331174e-1f);
  const float y = fma(n, -2.12194440e-4f, fma(p * m, z, -0.5f * z));
  return fma(n, 0.693359375f, m + y);
}
HETPIPE_POINTWISE_INLINE float log(float x) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const bool tiny = x < 0x1p-126f;
  float y = log_of_normal(tiny ? x * 0x1p23f : x, tiny ? -23.0f : 0.0f);
  y = x == 0.0f ? -kInfinity : y;
  y = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : y;
  return x < kInfinity ? y : x;
}

// log(u) of u = 1 + x as it was rounded, and what the rounding lost.
HETPIPE_POINTWISE_INLINE float log1p(float x) {
  const float u = 1.0f + x;
  const float at_u = log(u);
  const float y = at_u + (x - (u - 1.0f)) / u;
  const bool usual = u > 0.0f && u < std::numeric_limits<float>::infinity();
  return usual ? y : at_u;
}
// The same of 0 <= x <= 1, or a NaN.
HETPIPE_POINTWISE_INLINE float log1p_of_part(float x) {
  const float u = 1.0f + x;
  return log_of_normal(u, 0.0f) + (x - (u - 1.0f)) / u;
}

// Near 0 an odd polynomial (Cephes' tanhf).
HETPIPE_POINTWISE_INLINE float tanh(float x) {
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = fma(p, z, 2.06390887954e-2f);
  p = fma(p, z, -5.37397155531e-2f);
  p = fma(p, z, 1.33314422036e-1f);
  p = fma(p, z, -3.33332819422e-1f);
  const float size = std::abs(x);
  const float large = 1.0f - 2.0f / (exp(size + size) + 1.0f);
  return size < 0.625f ? fma(p * z, x, x) : std::copysign(large, x);
}

// Polynomials of N. Juffa: near 0 an odd one, beyond 1 - e^p(|x|).
HETPIPE_POINTWISE_INLINE float erf(float x) {
  const float t = std::abs(x), s = x * x;
  float p = fma(-1.72853470e-5f, t, 3.83197126e-4f);
  const float q = fma(-3.88396438e-3f, t, 2.42546219e-2f);
  p = fma(p, s, q);
  p = fma(p, t, -1.06777877e-1f);
  p = fma(p, t, -6.34846687e-1f);
  p = fma(p, t, -1.28717512e-1f);
  p = fma(p, t, -t);
  p = t > 10.0f ? -100.0f : p;
  const float large = std::copysign(1.0f - exp(p), x);
  float r = -5.96761703e-4f;
  r = fma(r, s, 4.99119423e-3f);
  r = fma(r, s, -2.67681349e-2f);
  r = fma(r, s, 1.12819925e-1f);
  r = fma(r, s, -3.76125336e-1f);
  r = fma(r, s, 1.28379166e-1f);
  r = fma(r, x, x);
  return t > 0.921875f ? large : r;
}

// x = n pi/2 + r, |r| <= pi/4, in double: exact enough for |x| < 10^6 and more; a sine or cosine of
// r by n's last two bits.
HETPIPE_POINTWISE_INLINE float sine_of(float x, std::int64_t quarters) {
  constexpr double kMagic = 0x1.8p52;
  const double v = static_cast<double>(x);
  const double shifted = v * (2 * std::numbers::inv_pi) + kMagic;
  const std::int64_t n = std::bit_cast<std::int64_t>(shifted) + quarters;
  const double r = v - (shifted - kMagic) * (std::numbers::pi / 2);
  const double z = r * r;
  double s = 2.7557319e-6;
  s = fma(s, z, -1.984126984e-4);
  s = fma(s, z, 8.33333333333e-3);
  s = fma(s, z, -1.66666666666667e-1);
  s = fma(s * z, r, r);
  double c = -2.7557319e-7;
  c = fma(c, z, 2.48015873e-5);
  c = fma(c, z, -1.388888888889e-3);
  c = fma(c, z, 4.16666666666667e-2);
  c = fma(c * z, z, fma(-0.5, z, 1.0));
  const double y = (n & 1) != 0 ? c : s;
  return static_cast<float>((n & 2) != 0 ? -y : y);
}
HETPIPE_POINTWISE_INLINE float sin(float x) { return sine_of(x, 0); }
HETPIPE_POINTWISE_INLINE float cos(float x) { return sine_of(x, 1); }

#endif

template <class T>
HETPIPE_POINTWISE_INLINE T sqrt(T x) {
  return std::sqrt(x);
}
template <class T>
HETPIPE_POINTWISE_INLINE T abs(T x) {
  return std::abs(x);
}
template <class T>
HETPIPE_POINTWISE_INLINE T floor(T x) {
  return std::floor(x);
}
template <class T>
HETPIPE_POINTWISE_INLINE T ceil(T x) {
  return std::ceil(x);
}
template <class T>
HETPIPE_POINTWISE_INLINE T trunc(T x) {
  return std::trunc(x);
}
template <class T>  // to even where two are as near
HETPIPE_POINTWISE_INLINE T round(T x) {
  return std::nearbyint(x);
}

// The larger and the smaller one; NaN where one is.
template <class T>
HETPIPE_POINTWISE_INLINE T maximum(T x, T y) {
  return x != x ? x : x > y ? x : y;
}
template <class T>
HETPIPE_POINTWISE_INLINE T minimum(T x, T y) {
  return x != x ? x : x < y ? x : y;
}

// Between two bounds, the upper one where they are the wrong way round.
template <class T>
HETPIPE_POINTWISE_INLINE T clamp(T x, T least, T most) {
  const T raised = x < least ? least : x;
  return raised > most ? most : raised;
}

template <class T>
HETPIPE_POINTWISE_INLINE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <class T>
HETPIPE_POINTWISE_INLINE T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}
// log(1 + e^x)
template <class T>
HETPIPE_POINTWISE_INLINE T softplus(T x) {
  return (x < T(0) ? T(0) : x) + log1p_of_part(exp(-abs(x)));
}

// The normal distribution's cumulative function; `bell` is e^(-x^2/2).
HETPIPE_POINTWISE_INLINE double normal_cumulative(double x, double /*bell*/) {
  return 0.5 * std::erfc(x * (-1 / std::numbers::sqrt2));
}
// erfc(t) = e^(-t^2) k p(k), k = 1 / (1 + 3/8 t), after Hastings; p is fitted to a relative error
// of 1.3e-8 for t in [0, 10].
HETPIPE_POINTWISE_INLINE float normal_cumulative(float x, float bell) {
  constexpr float kRoot = static_cast<float>(0.375 / std::numbers::sqrt2);
  const float k = 1.0f / fma(kRoot, std::abs(x), 1.0f);
  float p = 0.06153853895392841f;
  p = fma(p, k, -0.2873299264057455f);
  p = fma(p, k, 0.4323983267372405f);
  p = fma(p, k, -0.22941304895809428f);
  p = fma(p, k, 0.27372449639297847f);
  p = fma(p, k, 0.12150501708478513f);
  p = fma(p, k, 0.20531347554499177f);
  p = fma(p, k, 0.21064964962267596f);
  p = fma(p, k, 0.2116134764851446f);
  const float tail = 0.5f * (p * k) * bell;
  return x < 0.0f ? tail : 1.0f - tail;
}
// x cdf(x) of the normal distribution (Hendrycks & Gimpel 2016), and its derivative.
template <class T>
HETPIPE_POINTWISE_INLINE T gelu(T x) {
  return x * normal_cumulative(x, exp(T(-0.5) * x * x));
}
template <class T>
HETPIPE_POINTWISE_INLINE T gelu_slope(T x) {
  constexpr T kDensity = static_cast<T>(std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  const T bell = exp(T(-0.5) * x * x);
  return normal_cumulative(x, bell) + x * (bell * kDensity);
}
// x/2 (1 + tanh(u)) = x sigmoid(2u)
template <class T>
HETPIPE_POINTWISE_INLINE T gelu_tanh(T x) {
  constexpr T kFactor = static_cast<T>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  return x * sigmoid(kFactor * (x + T(0.044715) * x * x * x));
}
template <class T>
HETPIPE_POINTWISE_INLINE T gelu_tanh_slope(T x) {
  constexpr T kFactor = static_cast<T>(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
  const T s = sigmoid(kFactor * (x + T(0.044715) * x * x * x));
  const T inner = kFactor * (T(1) + T(3 * 0.044715) * x * x);
  return s + x * (s * (T(1) - s)) * inner;
}

}  // namespace hetpipe::pointwise
