// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/elementwise.h"

#include "kernels/cuda/own/pack.h"
#include "kernels/selu.h"

namespace hetpipe::cuda {
namespace {

// A NaN stays a NaN in all of these.
struct Relu {
  HETPIPE_DEVICE float operator()(float x) const { return x <= 0 ? 0.0f : x; }
};
struct ReluBackward {
  HETPIPE_DEVICE float operator()(float y, float dy) const { return y <= 0 ? 0.0f : dy; }
};

constexpr float kScale = static_cast<float>(kSeluScale);
constexpr float kFloor = static_cast<float>(kSeluFloor);

struct Selu {
  HETPIPE_DEVICE float operator()(float x) const {
    return x <= 0 ? -kFloor * expm1f(x) : kScale * x;
  }
};
struct SeluBackward {
  HETPIPE_DEVICE float operator()(float y, float dy) const {
    return dy * (y <= 0 ? y - kFloor : kScale);
  }
};

// (1 + tanh(u)) / 2 is the logistic function of 2u, which loses no digits where tanh is near -1.
// 2u = kTwice * (v + kCubic v^3).
constexpr float kTwice = 1.5957691216057308f;  // 2 sqrt(2/pi)
constexpr float kCubic = 0.044715f;

struct Gelu {
  HETPIPE_DEVICE float operator()(float v) const {
    return v / (1 + expf(-kTwice * (v + kCubic * v * v * v)));
  }
};
struct GeluBackward {
  HETPIPE_DEVICE float operator()(float v, float dy) const {
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

struct Plus {
  HETPIPE_DEVICE float operator()(float a, float b) const { return a + b; }
};
struct PlusRelu {
  HETPIPE_DEVICE float operator()(float a, float b) const { return Relu{}(a + b); }
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
void relu_forward(const T* x, T* y, std::int64_t count, On on) {
  map(Relu{}, x, y, count, on);
}
template <class T>
void relu_backward(const T* y, const T* dy, T* dx, std::int64_t count, On on) {
  map(ReluBackward{}, y, dy, dx, count, on);
}

template <class T>
void selu_forward(const T* x, T* y, std::int64_t count, On on) {
  map(Selu{}, x, y, count, on);
}
template <class T>
void selu_backward(const T* y, const T* dy, T* dx, std::int64_t count, On on) {
  map(SeluBackward{}, y, dy, dx, count, on);
}

template <class T>
void gelu_forward(const T* x, T* y, std::int64_t count, On on) {
  map(Gelu{}, x, y, count, on);
}
template <class T>
void gelu_backward(const T* x, const T* dy, T* dx, std::int64_t count, On on) {
  map(GeluBackward{}, x, dy, dx, count, on);
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

#define HETPIPE_ELEMENTWISE(T)                                              \
  template void relu_forward(const T*, T*, std::int64_t, On);               \
  template void relu_backward(const T*, const T*, T*, std::int64_t, On);    \
  template void selu_forward(const T*, T*, std::int64_t, On);               \
  template void selu_backward(const T*, const T*, T*, std::int64_t, On);    \
  template void gelu_forward(const T*, T*, std::int64_t, On);               \
  template void gelu_backward(const T*, const T*, T*, std::int64_t, On);    \
  template void add_forward(const T*, const T*, T*, std::int64_t, On);      \
  template void add_relu_forward(const T*, const T*, T*, std::int64_t, On); \
  template void copy(const T*, T*, std::int64_t, On);
HETPIPE_ELEMENTWISE(float)
HETPIPE_ELEMENTWISE(Bf16)
HETPIPE_ELEMENTWISE(Fp16)

}  // namespace hetpipe::cuda
