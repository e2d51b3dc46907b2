// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/devices.h"
#include "tests/unit/kernels/layer_run.h"

namespace hetpipe {
namespace kernels_optimizer_test {

using test::normal_values;

constexpr std::int64_t kCount = 1003;

class Optimizers : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Device> device_ = make_device(GetParam(), 1);
  std::unique_ptr<Stream> stream_ = device_->make_stream();
};

TEST_P(Optimizers, SgdFollowsTheScalarProgram) {
  const SgdOptions o{0.05f, 0.9f, 1e-2f};
  std::vector<float> weights = normal_values(1, kCount);
  std::vector<double> w(weights.begin(), weights.end());
  std::vector<double> v(kCount, 0.0);
  std::vector<float> velocity(kCount, 0.0f), delta(kCount);
  for (std::uint64_t step = 0; step < 20; ++step) {
    const std::vector<float> g = normal_values(100 + step, kCount);
    device_->sgd(*stream_, delta.data(), velocity.data(), g.data(), weights.data(), o, kCount);
    device_->add(*stream_, weights.data(), delta.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      v[i] = double(o.momentum) * v[i] + (g[i] + double(o.weight_decay) * w[i]);
      w[i] -= double(o.rate) * v[i];
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(weights[i], w[i], 1e-5);
}

TEST_P(Optimizers, SgdWithoutMomentumNeedsNoVelocity) {
  const std::vector<float> g = {1, -2, 0.5f}, w = {4, 0, -8};
  std::vector<float> delta(3), delta_with(3), velocity(3, 0.0f);
  device_->sgd(*stream_, delta.data(), nullptr, g.data(), w.data(), {0.5f, 0, 0.25f}, 3);
  EXPECT_EQ(delta, (std::vector<float>{-1, 1, 0.75f}));
  device_->sgd(*stream_, delta_with.data(), velocity.data(), g.data(), w.data(), {0.5f, 0, 0.25f},
               3);
  EXPECT_EQ(delta_with, delta);
}

TEST_P(Optimizers, AdamFollowsTheScalarProgram) {
  const AdamOptions o{0.01f, 0.9f, 0.999f, 1e-8f, 1e-2f};
  std::vector<float> weights = normal_values(2, kCount);
  std::vector<double> w(weights.begin(), weights.end());
  std::vector<double> m(kCount, 0.0), v(kCount, 0.0);
  std::vector<float> first(kCount, 0.0f), second(kCount, 0.0f), delta(kCount);
  const double b1 = double(o.beta1), b2 = double(o.beta2);
  for (int step = 1; step <= 20; ++step) {
    const std::vector<float> g = normal_values(200 + static_cast<std::uint64_t>(step), kCount);
    device_->adam(*stream_, delta.data(), first.data(), second.data(), g.data(), weights.data(), o,
                  step, kCount);
    device_->add(*stream_, weights.data(), delta.data(), kCount);
    for (std::size_t i = 0; i < kCount; ++i) {
      const double gradient = g[i] + double(o.weight_decay) * w[i];
      m[i] = b1 * m[i] + (1 - b1) * gradient;
      v[i] = b2 * v[i] + (1 - b2) * gradient * gradient;
      const double mean = m[i] / (1 - std::pow(b1, step));
      const double deviation = std::sqrt(v[i] / (1 - std::pow(b2, step)));
      w[i] -= double(o.rate) * mean / (deviation + double(o.epsilon));
    }
  }
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(weights[i], w[i], 1e-5);
}

// Bias correction makes the first step the rate times the gradient's sign, however small the
// gradient.
TEST_P(Optimizers, AdamsFirstStepIsTheRate) {
  const std::vector<float> g = {1e-3f, -5, 100, 0}, w(4, 0.0f);
  std::vector<float> first(4, 0.0f), second(4, 0.0f), delta(4);
  device_->adam(*stream_, delta.data(), first.data(), second.data(), g.data(), w.data(),
                {.rate = 0.25f}, 1, 4);
  EXPECT_NEAR(delta[0], -0.25f, 1e-5);
  EXPECT_NEAR(delta[1], 0.25f, 1e-6);
  EXPECT_NEAR(delta[2], -0.25f, 1e-6);
  EXPECT_EQ(delta[3], 0);
}

TEST_P(Optimizers, ElementwiseWork) {
  const std::vector<float> x = normal_values(3, kCount), y = normal_values(4, kCount);
  std::vector<float> z(kCount), w = y;
  device_->sum(*stream_, z.data(), x.data(), y.data(), kCount);
  device_->add(*stream_, w.data(), x.data(), kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(z[i], x[i] + y[i]);
    ASSERT_EQ(w[i], y[i] + x[i]);
  }
  device_->scale(*stream_, w.data(), 0.3f, kCount);
  for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(w[i], (y[i] + x[i]) * 0.3f);
  device_->fill(*stream_, w.data(), 2.5f, kCount - 1);
  EXPECT_EQ(std::count(w.begin(), w.end(), 2.5f), kCount - 1);
  EXPECT_NE(w.back(), 2.5f);
}

// By hand: 1 + 4 + 9 + .25 + 16 + 4 = 34.25.
TEST_P(Optimizers, SumsOfSquares) {
  const std::vector<float> x = {1, -2, 3, .5f, -4, 0, 2};
  double sum = -1;
  device_->sum_of_squares(*stream_, &sum, x.data(), 7);
  EXPECT_EQ(sum, 34.25);
  device_->sum_of_squares(*stream_, &sum, x.data(), 0);
  EXPECT_EQ(sum, 0);
}

// A float would have lost the small ones.
TEST_P(Optimizers, SumsSquaresInDouble) {
  std::vector<float> x(10'001, 1e-3f);
  x[0] = 1e3f;
  double sum = 0;
  device_->sum_of_squares(*stream_, &sum, x.data(), 10'001);
  EXPECT_NEAR(sum, 1e6 + 1e-2, 1e-6);
}

// PyTorch 1.13: clip_grad_norm_ over {1, -2, 3} and {.5, -4, 0, 2}, whose norm is 5.85234976.
TEST_P(Optimizers, LimitsANormAsPyTorch) {
  const std::vector<float> x = {1, -2, 3, .5f, -4, 0, 2};
  const auto limited = [&](double max_norm) {
    std::vector<float> y = x;
    std::vector<double> squares(2);
    device_->sum_of_squares(*stream_, &squares[0], y.data(), 3);
    device_->sum_of_squares(*stream_, &squares[1], y.data() + 3, 4);
    device_->limit_norm(*stream_, y.data(), squares.data(), 2, max_norm, 7);
    return y;
  };
  const std::vector<float> one = {
      0.170871511f, -0.341743022f, 0.512614548f, 0.0854357556f, -0.683486044f, 0, 0.341743022f};
  const std::vector<float> four = limited(4);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_NEAR(limited(1)[i], one[i], 1e-7);
    EXPECT_NEAR(four[i], 4 * one[i], 1e-6);
  }
  EXPECT_EQ(limited(100), x);
}

INSTANTIATE_TEST_SUITE_P(Devices, Optimizers, testing::Values("cpu", "reference"));

// Several threads share the work by pieces; no element's arithmetic changes.
TEST(OptimizerBits, AreTheSameOnEveryDeviceAndThreadCount) {
  constexpr std::int64_t kMany = 100'003;
  const std::vector<float> g = normal_values(5, kMany), w = normal_values(6, kMany);
  const auto run = [&](const char* name, int threads) {
    const std::unique_ptr<Device> device = make_device(name, threads);
    const std::unique_ptr<Stream> stream = device->make_stream();
    std::vector<float> velocity = normal_values(7, kMany), first = normal_values(8, kMany);
    std::vector<float> second(kMany, 0.125f), all(3 * kMany);
    device->sgd(*stream, all.data(), velocity.data(), g.data(), w.data(), {0.1f, 0.9f, 1e-4f},
                kMany);
    device->adam(*stream, all.data() + kMany, first.data(), second.data(), g.data(), w.data(), {},
                 7, kMany);
    device->sgd(*stream, all.data() + 2 * kMany, nullptr, g.data(), w.data(), {0.1f, 0, 1e-4f},
                kMany);
    double squares = 0;
    device->sum_of_squares(*stream, &squares, g.data(), kMany);
    std::vector<float> limited = g;
    device->limit_norm(*stream, limited.data(), &squares, 1, 3.0, kMany);
    for (const auto& state : {velocity, first, second, limited}) {
      all.insert(all.end(), state.begin(), state.end());
    }
    return all;
  };
  const std::vector<float> wanted = run("reference", 1);
  EXPECT_TRUE(run("cpu", 1) == wanted);
  EXPECT_TRUE(run("cpu", 2) == wanted);
}

}  // namespace kernels_optimizer_test
}  // namespace hetpipe
