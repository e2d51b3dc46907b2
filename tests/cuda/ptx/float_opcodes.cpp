// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "tests/cuda/ptx/lanes.h"
#include "tests/cuda/ptx/rounding.h"

// Arithmetic of fp32 and fp64. The approximations are as exact here as the format allows, which a
// GPU's are not; a NaN's bits are the host's.
namespace hetpipe::cuda::ptx {
namespace {

float flushed(float x) { return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x; }

// One operand that is NaN gives the other.
template <class T>
T least(T a, T b) {
  if (a == b) return std::signbit(a) ? a : b;  // -0 is less than 0
  return std::isnan(a) || b < a ? b : a;
}
template <class T>
T largest(T a, T b) {
  if (a == b) return std::signbit(a) ? b : a;
  return std::isnan(a) || b > a ? b : a;
}

template <class T>
void add_both(Opcodes& all, const std::string& type) {
  for (const char* const rounding : {".", ".rn."}) {
    const std::string name = rounding + type;
    all["add" + name] = on_lanes<T, T, T>([](T a, T b) { return a + b; });
    all["sub" + name] = on_lanes<T, T, T>([](T a, T b) { return a - b; });
    all["mul" + name] = on_lanes<T, T, T>([](T a, T b) { return a * b; });
  }
  all["fma.rn." + type] = on_lanes<T, T, T, T>([](T a, T b, T c) { return std::fma(a, b, c); });
  all["div.rn." + type] = on_lanes<T, T, T>([](T a, T b) { return a / b; });
  all["rcp.rn." + type] = on_lanes<T, T>([](T a) { return 1 / a; });
  all["sqrt.rn." + type] = on_lanes<T, T>([](T a) { return std::sqrt(a); });
  all["neg." + type] = on_lanes<T, T>([](T a) { return -a; });
  all["abs." + type] = on_lanes<T, T>([](T a) { return std::abs(a); });
  all["min." + type] = on_lanes<T, T, T>([](T a, T b) { return least(a, b); });
  all["max." + type] = on_lanes<T, T, T>([](T a, T b) { return largest(a, b); });
  // The sign of the first, the rest of the second.
  all["copysign." + type] =
      on_lanes<T, T, T>([](T sign, T size) { return std::copysign(size, sign); });
}

}  // namespace

void add_float_opcodes(Opcodes& all) {
  add_both<float>(all, "f32");
  add_both<double>(all, "f64");
  all["fma.rm.f32"] = on_lanes<float, float, float, float>(
      [](float a, float b, float c) { return fma_down(a, b, c); });
  all["add.rz.f32"] =
      on_lanes<float, float, float>([](float a, float b) { return add_to_zero(a, b); });
  all["ex2.approx.f32"] = on_lanes<float, float>([](float a) { return std::exp2(a); });
  all["ex2.approx.ftz.f32"] =
      on_lanes<float, float>([](float a) { return flushed(std::exp2(flushed(a))); });
  all["lg2.approx.f32"] = on_lanes<float, float>([](float a) { return std::log2(a); });
  all["rcp.approx.ftz.f32"] =
      on_lanes<float, float>([](float a) { return flushed(1 / flushed(a)); });
  for (const char* const name : {"rsqrt.approx.f32", "rsqrt.approx.ftz.f32"}) {
    all[name] = on_lanes<float, float>(
        [](float a) { return static_cast<float>(1 / std::sqrt(double{a})); });
  }
}

}  // namespace hetpipe::cuda::ptx
