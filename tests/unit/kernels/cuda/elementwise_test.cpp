// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/elementwise.h"

#include "kernels/reference/elementwise.h"
#include "tests/unit/kernels/cuda/own_test.h"
#include "tests/unit/kernels/layer_cases.h"

namespace hetpipe::cuda {
namespace elementwise_test {

using namespace test;

template <class T>
class Elementwise : public testing::Test {
 protected:
  using Forward = void (*)(const T*, T*, std::int64_t, On);
  using Backward = void (*)(const T*, const T*, T*, std::int64_t, On);
  using Values = std::vector<float>;

  // Normal draws, and what is special.
  static std::vector<T> inputs(std::uint64_t key, std::int64_t count) {
    std::vector<T> x = draws<T>(key, count);
    const float infinity = std::numeric_limits<float>::infinity();
    const std::vector<float> special = {0.0f, -0.0f,    std::nanf(""), 60.0f, -60.0f,
                                        9.0f, infinity, -9.0f,         1e-7f, -1e-7f};
    for (std::size_t i = 0; i < std::min(special.size(), x.size()); ++i) x[i] = T(special[i]);
    return x;
  }

  // Every count and offset, with an output of its own and in the place of the input. wanted(x)
  // works in float; `check` compares.
  template <class Wanted, class Check>
  static void sweep(Forward forward, const Wanted& wanted, const Check& check) {
    in_both_orders([&] {
      for (const std::int64_t count : kCounts) {
        for (const std::int64_t offset : {0, 1}) {
          SCOPED_TRACE(testing::Message() << count << " elements, offset " << offset);
          const std::vector<T> values = inputs(1, count);
          Values result(values.size());
          wanted(count, widened(values).data(), result.data());
          Array<T> x(values, offset), y(count);
          forward(x.data(), y.data(), count, nullptr);
          ASSERT_TRUE(check(y.values(), result));
          ASSERT_TRUE(same(x.values(), values));
          forward(x.data(), x.data(), count, nullptr);
          ASSERT_TRUE(check(x.values(), result));
        }
      }
    });
  }
  // Likewise of two inputs; the output takes the place of either.
  template <class Wanted, class Check>
  static void sweep(Backward backward, const Wanted& wanted, const Check& check) {
    in_both_orders([&] {
      for (const std::int64_t count : kCounts) {
        for (const std::int64_t offset : {0, 1}) {
          SCOPED_TRACE(testing::Message() << count << " elements, offset " << offset);
          const std::vector<T> first = inputs(2, count), second = draws<T>(3, count);
          Values result(first.size());
          wanted(count, widened(first).data(), widened(second).data(), result.data());
          Array<T> x(first, offset), dy(second), dx(count, 2 * offset);
          backward(x.data(), dy.data(), dx.data(), count, nullptr);
          ASSERT_TRUE(check(dx.values(), result));
          backward(x.data(), dy.data(), dy.data(), count, nullptr);
          ASSERT_TRUE(check(dy.values(), result));
          Array<T> other(second);
          backward(x.data(), other.data(), x.data(), count, nullptr);
          ASSERT_TRUE(check(x.values(), result));
        }
      }
    });
  }

  static testing::AssertionResult exact(const std::vector<T>& got, const Values& wanted) {
    return same_rounded(got, wanted);
  }
  // `floats`: units in the last place of float that the arithmetic may differ by.
  static auto within(double floats) {
    return [floats](const std::vector<T>& got, const Values& wanted) {
      return near(got, wanted, floats);
    };
  }
};
TYPED_TEST_SUITE(Elementwise, Elements);

// Of a layer, as functions of the reference and of the GPU.
template <class T, class Layer>
struct Ways {
  static void forward(const T* x, T* y, std::int64_t count, On on) {
    elementwise_forward(Layer{}, x, y, count, on);
  }
  static void backward(const T* read, const T* dy, T* dx, std::int64_t count, On on) {
    elementwise_backward(Layer{}, read, dy, dx, count, on);
  }
  static void forward_reference(std::int64_t count, const float* x, float* y) {
    reference::elementwise_forward(Layer{}, count, x, y);
  }
  static void backward_reference(std::int64_t count, const float* read, const float* dy,
                                 float* dx) {
    reference::elementwise_backward(Layer{}, count, read, dy, dx);
  }
};

TYPED_TEST(Elementwise, Relu) {
  using Relus = Ways<TypeParam, Relu>;
  this->sweep(Relus::forward, Relus::forward_reference, this->exact);
  this->sweep(Relus::backward, Relus::backward_reference, this->exact);
}

TYPED_TEST(Elementwise, Selu) {
  using Selus = Ways<TypeParam, Selu>;
  this->sweep(Selus::forward, Selus::forward_reference, this->within(4));
  this->sweep(Selus::backward, Selus::backward_reference, this->exact);
}

TYPED_TEST(Elementwise, Add) {
  this->sweep(add_forward<TypeParam>, reference::add_forward<float>, this->exact);
}

TYPED_TEST(Elementwise, AddAndRelu) {
  this->sweep(
      add_relu_forward<TypeParam>,
      [](std::int64_t count, const float* a, const float* b, float* y) {
        reference::add_forward(count, a, b, y);
        reference::elementwise_forward(Relu{}, count, y, y);
      },
      this->exact);
}

TYPED_TEST(Elementwise, Copy) {
  this->sweep(
      copy<TypeParam>,
      [](std::int64_t count, const float* x, float* y) { std::copy_n(x, count, y); }, this->exact);
}

// Finite numbers, some of them far out.
template <class T>
std::vector<T> wide_draws(std::uint64_t key, std::int64_t count) {
  std::vector<float> wide = normal_values(key, count);
  for (float& v : wide) v *= 2;
  for (const float v : {0.0f, -0.0f, 5.0f, -5.0f, 8.0f, -8.0f, 20.0f, -20.0f, 200.0f, -200.0f}) {
    wide.push_back(v);
  }
  return rounded<T>(wide);
}

TYPED_TEST(Elementwise, EveryLayerIsNearTheDefinition) {
  constexpr double kHalf = std::is_same_v<TypeParam, float> ? 0 : .5;
  const auto number = [](auto value) { return static_cast<double>(static_cast<float>(value)); };
  hetpipe::test::for_each_elementwise([&]<class Layer>(const Layer& layer) {
    for (const std::int64_t drawn : kCounts) {
      SCOPED_TRACE(testing::Message() << row_of<Layer>().name << ", " << drawn << " draws");
      const std::vector<TypeParam> values = wide_draws<TypeParam>(4, drawn);
      const auto count = static_cast<std::int64_t>(values.size());
      const std::vector<TypeParam> gradient = draws<TypeParam>(5, count);
      std::vector<float> forward(values.size()), backward(values.size());
      reference::elementwise_forward(layer, count, widened(values).data(), forward.data());
      reference::elementwise_backward(layer, count, widened(values).data(),
                                      widened(gradient).data(), backward.data());
      in_both_orders([&] {
        Array<TypeParam> x(values, 1), y(count), dy(gradient), dx(count, 3);
        elementwise_forward(layer, x.data(), y.data(), count, nullptr);
        elementwise_backward(layer, x.data(), dy.data(), dx.data(), count, nullptr);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto k = static_cast<std::size_t>(i);
          const double v = number(values[k]);
          ASSERT_NEAR(number(y[i]), forward[k],
                      kHalf * last_place<TypeParam>(forward[k]) + 1e-6 * std::max(1.0, std::abs(v)))
              << v;
          ASSERT_NEAR(
              number(dx[i]), backward[k],
              kHalf * last_place<TypeParam>(backward[k]) + 1e-6 * std::abs(number(gradient[k])))
              << v;
        }
        elementwise_backward(layer, x.data(), dy.data(), dy.data(), count, nullptr);
        ASSERT_TRUE(same(dy.values(), dx.values()));
        elementwise_forward(layer, x.data(), x.data(), count, nullptr);
        ASSERT_TRUE(same(x.values(), y.values()));
      });
    }
  });
}

// The definition takes tanh; beyond -5 it loses in 1 + tanh what a GPU keeps, so the oracle there
// is the same function by way of the logistic function.
double gelu(double v) {
  return v / (1 + std::exp(-2 * Gelu::kFactor * (v + Gelu::kCubic * v * v * v)));
}
double gelu_slope(double v) {
  const double twice = 2 * Gelu::kFactor * (v + Gelu::kCubic * v * v * v);
  const double logistic = 1 / (1 + std::exp(-twice)), rest = 1 / (1 + std::exp(twice));
  const double inner = 2 * Gelu::kFactor * (1 + 3 * Gelu::kCubic * v * v);
  return logistic + v * logistic * rest * inner;
}

template <class T>
class GeluKernels : public testing::Test {};
TYPED_TEST_SUITE(GeluKernels, Elements);

// Relative to the result the error of an exponential grows with its argument.
TYPED_TEST(GeluKernels, AreNearTheDefinition) {
  const std::vector<TypeParam> values = wide_draws<TypeParam>(4, 5000);
  const std::vector<float> wide = widened(values);
  const auto count = static_cast<std::int64_t>(wide.size());
  const std::vector<TypeParam> gradient = draws<TypeParam>(5, count);
  in_both_orders([&] {
    Array<TypeParam> x(values, 1), y(count), dy(gradient), dx(count, 3);
    elementwise_forward(Gelu{}, x.data(), y.data(), count, nullptr);
    elementwise_backward(Gelu{}, x.data(), dy.data(), dx.data(), count, nullptr);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double v = static_cast<double>(wide[k]), got = static_cast<float>(y[i]);
      const double half = std::is_same_v<TypeParam, float> ? 0 : .5;
      ASSERT_NEAR(got, gelu(v),
                  half * last_place<TypeParam>(gelu(v)) +
                      (4 + 2 * std::abs(v * v)) * last_place<float>(gelu(v)))
          << v;
      const double wanted = gelu_slope(v) * static_cast<double>(static_cast<float>(gradient[k]));
      const double slope_got = static_cast<float>(dx[i]);
      const double bound = half * last_place<TypeParam>(wanted) +
                           1e-6 * std::abs(static_cast<double>(static_cast<float>(gradient[k])));
      ASSERT_NEAR(slope_got, wanted, bound) << v;
    }
  });
}

TYPED_TEST(GeluKernels, FarOut) {
  const float infinity = std::numeric_limits<float>::infinity();
  const auto run = [](float v) {
    Array<TypeParam> x(std::vector<TypeParam>{TypeParam(v)}), dy(rounded<TypeParam>({1.0f}));
    Array<TypeParam> y(1), dx(1);
    elementwise_forward(Gelu{}, x.data(), y.data(), 1, nullptr);
    elementwise_backward(Gelu{}, x.data(), dy.data(), dx.data(), 1, nullptr);
    return std::pair(static_cast<float>(y[0]), static_cast<float>(dx[0]));
  };
  for (const float large : {100.0f, 6e4f}) {
    EXPECT_EQ(run(large), std::pair(static_cast<float>(TypeParam(large)), 1.0f));
    EXPECT_EQ(run(-large), std::pair(0.0f, 0.0f));
  }
  if (!std::is_same_v<TypeParam, Fp16>) {
    EXPECT_EQ(run(1e30f).second, 1.0f);
    EXPECT_EQ(run(-1e30f), std::pair(0.0f, 0.0f));
  }
  EXPECT_EQ(run(infinity).first, infinity);
  EXPECT_TRUE(std::isnan(run(std::nanf("")).first));
  EXPECT_TRUE(std::isnan(run(std::nanf("")).second));
}

}  // namespace elementwise_test
}  // namespace hetpipe::cuda
