// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/elementwise.h"

#include "kernels/cuda/own/pack.h"
#include "kernels/cuda/own/reduce.h"

namespace hetpipe::cuda {
namespace {

// What a GPU computes for a layer: its own functions, in float, where there is nothing better.
template <class Layer>
struct OnGpu : Layer {
  explicit OnGpu(const Layer& layer) : Layer(layer) {}
};

// Without double and tanh: (1 + tanh(u)) / 2 is the logistic function of 2u, which loses no digits
// where tanh is near -1. 2u = kTwice * (v + kCubic v^3).
template <>
struct OnGpu<Gelu> {
  static constexpr float kTwice = 1.5957691216057308f;  // 2 sqrt(2/pi)
  static constexpr float kCubic = 0.044715f;

  explicit OnGpu(const Gelu&) {}
  HETPIPE_DEVICE float forward(float v) const {
    return v / (1 + expf(-kTwice * (v + kCubic * v * v * v)));
  }
  HETPIPE_DEVICE float backward(float v, float dy) const {
    const float twice = kTwice * (v + kCubic * v * v * v);
    const float small = expf(-fabsf(twice));  // never overflows
    const float large = 1 / (1 + small);
    const float logistic = twice < 0 ? small * large : large;
    // logistic' = logistic (1 - logistic); 0 rather than 0 * infinity far out.
    const float bend = small * large * large;
    const float slope = bend == 0 ? 0.0f : v * bend * kTwice * (1 + 3 * kCubic * v * v);
    return dy * (logistic + slope);
  }
};

template <class Layer>
struct Forward {
  OnGpu<Layer> layer;

  explicit Forward(const Layer& l) : layer(l) {}
  HETPIPE_DEVICE float operator()(float x) const { return layer.forward(x); }
};
template <class Layer>
struct Backward {
  OnGpu<Layer> layer;

  explicit Backward(const Layer& l) : layer(l) {}
  HETPIPE_DEVICE float operator()(float read, float dy) const { return layer.backward(read, dy); }
};

struct PlusRelu {
  HETPIPE_DEVICE float operator()(float a, float b) const { return Relu{}.forward(a + b); }
};

template <class T>
struct Copy {
  static constexpr int pack = kPack<T>;
  const T* x;
  T* y;
  HETPIPE_DEVICE void operator()(std::int64_t i, std::int64_t left) const {
    store(y + i, load<pack>(x + i, left), left);
  }
};

}  // namespace

template <class T>
void elementwise_forward(const ElementwiseSpec& spec, const T* x, T* y, std::int64_t count, On on) {
  std::visit([&](const auto& layer) { map(Forward(layer), x, y, count, on); }, spec);
}
template <class T>
void elementwise_backward(const ElementwiseSpec& spec, const T* read, const T* dy, T* dx,
                          std::int64_t count, On on) {
  std::visit([&](const auto& layer) { map(Backward(layer), read, dy, dx, count, on); }, spec);
}

template <class T>
void add_forward(const T* a, const T* b, T* y, std::int64_t count, On on) {
  map(Plus{}, a, b, y, count, on);
}
template <class T>
void add_relu_forward(const T* a, const T* b, T* y, std::int64_t count, On on) {
  map(PlusRelu{}, a, b, y, count, on);
}

template <class T>
void copy(const T* x, T* y, std::int64_t count, On on) {
  if (x != y) each<Copy<T>::pack>(Copy<T>{x, y}, count, on);
}

#define HETPIPE_ELEMENTWISE(T)                                                                     \
  template void elementwise_forward(const ElementwiseSpec&, const T*, T*, std::int64_t, On);       \
  template void elementwise_backward(const ElementwiseSpec&, const T*, const T*, T*, std::int64_t, \
                                     On);                                                          \
  template void add_forward(const T*, const T*, T*, std::int64_t, On);                             \
  template void add_relu_forward(const T*, const T*, T*, std::int64_t, On);                        \
  template void copy(const T*, T*, std::int64_t, On);
HETPIPE_ELEMENTWISE(float)
HETPIPE_ELEMENTWISE(Bf16)
HETPIPE_ELEMENTWISE(Fp16)

}  // namespace hetpipe::cuda
