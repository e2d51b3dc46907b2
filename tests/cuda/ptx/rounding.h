// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <limits>

// Roundings that the host's processor does not do by itself without a change of its mode.
namespace hetpipe::cuda::ptx {

// x + y as a double and what that leaves out (both exact together).
struct ExactSum {
  double sum, rest;
  ExactSum(double x, double y) : sum(x + y) {
    const double of_y = sum - x;
    rest = (x - (sum - of_y)) + (y - of_y);
  }
};

// The float next to the exact number sum.sum + sum.rest, not above it.
inline float round_down(const ExactSum& exact) {
  const auto nearest = static_cast<float>(exact.sum);
  const double wide = nearest;
  if (!std::isfinite(exact.sum)) return nearest;
  const bool above = wide > exact.sum || (wide == exact.sum && exact.rest < 0);
  return above ? std::nextafter(nearest, -std::numeric_limits<float>::infinity()) : nearest;
}
inline float round_to_zero(const ExactSum& exact) {
  return exact.sum < 0 ? -round_down(ExactSum(-exact.sum, -exact.rest)) : round_down(exact);
}

// A product of floats is exact as a double.
inline float fma_down(float a, float b, float c) {
  return round_down(ExactSum(double{a} * double{b}, double{c}));
}
inline float add_to_zero(float a, float b) { return round_to_zero(ExactSum(double{a}, double{b})); }

}  // namespace hetpipe::cuda::ptx
