// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <numbers>
#include <tuple>
#include <type_traits>
#include <variant>

#include "kernels/element.h"

// Layers that compute each element by itself, y = f(x), of any shape: what each of them is, and the
// table of all. Shapes and costs, every device's kernel and the tests that sweep over layers follow
// from these. A new one is a type with its functions and a row of the table; a device that knows a
// better way than to call the functions has its own (cpu/elementwise.cpp, cuda/own/elementwise.cu).
//
// forward(x) is y, and backward(x, dy) or backward(y, dy), as the row says, is dy * f'(x). T is
// float or, where gradients are checked, double. A NaN stays one, so that a numerical failure is
// not lost. A layer may have parameters of its own as members.
namespace hetpipe {

// max(x, 0)
struct Relu {
  template <class T>
  HETPIPE_HOST_DEVICE T forward(T x) const {
    return x <= 0 ? T{0} : x;
  }
  template <class T>
  HETPIPE_HOST_DEVICE T backward(T y, T dy) const {
    return y <= 0 ? T{0} : dy;
  }
};

// Self-normalising activation (Klambauer et al. 2017, eq. 2): scale*x, and scale*alpha*(e^x - 1)
// where x <= 0. Mean 0 and variance 1 are a fixed point under weights of mean 0 and variance
// 1/fan_in.
struct Selu {
  static constexpr double kAlpha = 1.6732632423543772;  // eq. 14
  static constexpr double kScale = 1.0507009873554805;
  static constexpr double kFloor = -kScale * kAlpha;  // the limit towards -infinity

  template <class T>
  HETPIPE_HOST_DEVICE T forward(T x) const {
    const T scale = static_cast<T>(kScale), floor = static_cast<T>(kFloor);
    return x <= 0 ? -floor * std::expm1(x) : scale * x;
  }
  // Where x <= 0 the slope scale*alpha*e^x is y + scale*alpha.
  template <class T>
  HETPIPE_HOST_DEVICE T backward(T y, T dy) const {
    const T scale = static_cast<T>(kScale), floor = static_cast<T>(kFloor);
    return dy * (y <= 0 ? y - floor : scale);
  }
};

// x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))), the form of GPT-2 (Hendrycks & Gimpel 2016),
// in double.
struct Gelu {
  static constexpr double kCubic = 0.044715;
  static constexpr double kFactor = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;

  template <class T>
  HETPIPE_HOST_DEVICE T forward(T x) const {
    const double v = static_cast<double>(x);
    const double t = std::tanh(kFactor * (v + kCubic * v * v * v));
    return static_cast<T>(0.5 * v * (1 + t));
  }
  template <class T>
  HETPIPE_HOST_DEVICE T backward(T x, T dy) const {
    const double v = static_cast<double>(x);
    const double t = std::tanh(kFactor * (v + kCubic * v * v * v));
    const double inner = kFactor * (1 + 3 * kCubic * v * v);
    return static_cast<T>(static_cast<double>(dy) *
                          (0.5 * (1 + t) + 0.5 * v * (1 - t * t) * inner));
  }
};

// x / (1 + e^-x), the product of x and its logistic function (Elfwing et al. 2018), also called
// swish.
struct Silu {
  template <class T>
  HETPIPE_HOST_DEVICE T forward(T x) const {
    return x / (1 + std::exp(-x));
  }
  template <class T>
  HETPIPE_HOST_DEVICE T backward(T x, T dy) const {
    const T logistic = 1 / (1 + std::exp(-x));
    return dy * logistic * (1 + x * (1 - logistic));
  }
};

// What backward reads beside the output's gradient. Where that is not the input, forward may write
// over it.
enum class BackwardReads { input, output };
// Whose kernel the CPU device takes: a loop of its own over the functions above, with the bits of
// the reference, or oneDNN's.
enum class CpuKernel { loop, onednn };

template <class Layer>
struct ElementwiseRow {
  const char* name;
  BackwardReads backward_reads;
  double forward_flops, backward_flops;  // of an element
  CpuKernel cpu;
};

inline constexpr std::tuple kElementwise{
    // name, what backward reads, flops of forward and of backward, whose kernel on the CPU
    ElementwiseRow<Relu>{"relu", BackwardReads::output, 1, 1, CpuKernel::loop},
    ElementwiseRow<Selu>{"selu", BackwardReads::output, 3, 2, CpuKernel::loop},
    ElementwiseRow<Gelu>{"gelu", BackwardReads::input, 9, 16, CpuKernel::onednn},
    ElementwiseRow<Silu>{"silu", BackwardReads::input, 4, 9, CpuKernel::onednn},
};

template <class Layer, class... Layers>
constexpr bool has_row(const std::tuple<ElementwiseRow<Layers>...>&) {
  return (std::is_same_v<Layer, Layers> || ...);
}
template <class Layer>
concept Elementwise = has_row<Layer>(kElementwise);

template <Elementwise Layer>
constexpr const ElementwiseRow<Layer>& row_of() {
  return std::get<ElementwiseRow<Layer>>(kElementwise);
}

// Any one of them: std::variant<Relu, ...>.
template <class... Layers>
std::variant<Layers...> variant_of(const std::tuple<ElementwiseRow<Layers>...>&);
using ElementwiseSpec = decltype(variant_of(kElementwise));

}  // namespace hetpipe
