// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/batch_norm.h"

#include <limits>

#include "base/error.h"
#include "kernels/reference/batch_norm.h"
#include "kernels/reference/elementwise.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace batch_norm_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class OwnBatchNorm : public testing::Test {};
TYPED_TEST_SUITE(OwnBatchNorm, ElementTypes);

constexpr double kEpsilon = 1e-5f;

const BatchNormSizes kShapes[] = {{1, 1},   {1, 8},   {2, 3},    {7, 5},    {33, 8},   {64, 24},
                                  {50, 70}, {300, 4}, {1000, 3}, {2100, 8}, {700, 64}, {5, 2000}};

struct Statistics {
  Array<float> mean, variance;
  std::vector<std::byte> bits() const { return bits_of(mean, variance); }
};

template <class T>
Statistics statistics(const BatchNormSizes& s, const Array<T>& x,
                      const RunningStatistics& running = {}) {
  Statistics result{Array<float>(s.channels), Array<float>(s.channels)};
  const auto space = scratch(batch_norm_scratch_bytes<T>(s));
  batch_norm_statistics(s, x.data(), result.mean.data(), result.variance.data(), running,
                        space.data(), nullptr);
  return result;
}

template <class T>
void expect_statistics(const BatchNormSizes& s, double mean, double deviation,
                       std::int64_t offset) {
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.channels << ", mean " << mean);
  const Numbers x = normal<T>(s.rows * s.channels, 3, mean, deviation);
  const Array<T> memory(x, offset);
  const Statistics got = in_both_orders([&] { return statistics(s, memory); });
  Numbers wanted_mean(got.mean.size()), wanted_variance(got.mean.size());
  reference::batch_statistics(s.rows, s.channels, x.data(), wanted_mean.data(),
                              wanted_variance.data());
  expect_close(got.mean, wanted_mean, 4e-7 * (std::abs(mean) + deviation), "mean");
  for (std::size_t c = 0; c < wanted_mean.size(); ++c) {
    const double v = wanted_variance[c];
    // The rounding of the threads' means is all that a large mean may cost.
    const double bound = 2e-6 * v + 4e-9 * std::abs(mean) * deviation;
    ASSERT_NEAR(got.variance.data()[c], v, bound) << "channel " << c;
  }
}

TYPED_TEST(OwnBatchNorm, Statistics) {
  for (const BatchNormSizes& s : kShapes) expect_statistics<TypeParam>(s, 0.5, 2, 0);
  expect_statistics<TypeParam>({200, 16}, 0, 1, 1);
}

TYPED_TEST(OwnBatchNorm, StatisticsAboutALargeMean) {
  expect_statistics<TypeParam>({3000, 4}, 1000, 1, 0);
  expect_statistics<TypeParam>({3000, 8}, -30, 0.5, 0);
}

// A first row far from all others: what a shift by it would drown.
TYPED_TEST(OwnBatchNorm, StatisticsAfterAnOutlier) {
  const BatchNormSizes s{2000, 1};
  Numbers x = normal<TypeParam>(s.rows, 5);
  x[0] = 20000;
  const Statistics got = statistics(s, Array<TypeParam>(x));
  Numbers mean(1), variance(1);
  x[0] = number(static_cast<TypeParam>(20000.0f));
  reference::batch_statistics(s.rows, s.channels, x.data(), mean.data(), variance.data());
  EXPECT_NEAR(got.mean.data()[0], mean[0], 1e-7 * std::sqrt(variance[0]));
  EXPECT_NEAR(got.variance.data()[0], variance[0], 2e-6 * variance[0]);
}

TYPED_TEST(OwnBatchNorm, RunningStatistics) {
  for (const std::int64_t rows : {1, 2, 50}) {
    const BatchNormSizes s{rows, 5};
    const Array<TypeParam> x(normal<TypeParam>(rows * 5, 11));
    const Numbers before_mean = normal<float>(5, 12),
                  before_variance = normal<float>(5, 13, 2, 0.1);
    const Array<float> mean(before_mean), variance(before_variance);
    const Statistics batch = statistics(s, x, {0.1f, mean.data(), variance.data()});
    Numbers wanted_mean = before_mean, wanted_variance = before_variance;
    const Numbers batch_mean = batch.mean.numbers(), batch_variance = batch.variance.numbers();
    reference::update_running_statistics<double>(rows, 5, 0.1, batch_mean.data(),
                                                 batch_variance.data(), wanted_mean.data(),
                                                 wanted_variance.data());
    expect_close(mean, wanted_mean, 1e-6, "running mean");
    expect_close(variance, wanted_variance, 1e-6, "running variance");
  }
}

template <class T>
struct Layer {
  BatchNormSizes s;
  Numbers x, scale, shift, residual, dy, mean, variance;

  explicit Layer(const BatchNormSizes& sizes) : s(sizes) {
    x = normal<T>(s.rows * s.channels, 21, 0.3, 1.5);
    residual = normal<T>(s.rows * s.channels, 22);
    dy = normal<T>(s.rows * s.channels, 23);
    scale = normal<float>(s.channels, 24);
    shift = normal<float>(s.channels, 25);
    mean.resize(scale.size());
    variance.resize(scale.size());
    reference::batch_statistics(s.rows, s.channels, x.data(), mean.data(), variance.data());
    for (double& m : mean) m = static_cast<float>(m);
    for (double& v : variance) v = static_cast<float>(v);
  }
  // Of dy times the normalised x at most.
  double largest_factor() const {
    double largest = 1;
    for (const double v : variance) largest = std::max(largest, 1 / std::sqrt(v + kEpsilon));
    return largest;
  }
};

template <class T>
void expect_forward(const Layer<T>& l, AfterNorm after, bool residual, std::int64_t offset) {
  const BatchNormSizes& s = l.s;
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.channels << " residual " << residual);
  const Array<T> x(l.x, offset), sum(l.residual, offset);
  // Parameters and statistics may lie anywhere.
  const Array<float> mean(l.mean, 2), variance(l.variance, 1), scale(l.scale, s.rows % 4),
      shift(l.shift, 3);
  const auto got = in_both_orders([&] {
    Array<T> y(s.rows * s.channels, offset);
    batch_norm_forward(s, after, x.data(), mean.data(), variance.data(), scale.data(), shift.data(),
                       residual ? sum.data() : nullptr, y.data(), nullptr);
    return y;
  });
  Numbers wanted(l.x.size());
  reference::batch_norm_forward(s.rows, s.channels, double{s.epsilon}, l.x.data(), l.mean.data(),
                                l.variance.data(), l.scale.data(), l.shift.data(), wanted.data());
  for (std::size_t i = 0; residual && i < wanted.size(); ++i) wanted[i] += l.residual[i];
  if (after == AfterNorm::relu)
    reference::elementwise_forward(Relu{}, static_cast<std::int64_t>(wanted.size()), wanted.data(),
                                   wanted.data());
  expect_close(got, wanted, 2e-6 * l.largest_factor(), "y");
}

TYPED_TEST(OwnBatchNorm, Forward) {
  for (const BatchNormSizes& s : kShapes) {
    const Layer<TypeParam> l(s);
    for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu})
      for (const bool residual : {false, true}) expect_forward(l, after, residual, 0);
  }
  expect_forward(Layer<TypeParam>({40, 16}), AfterNorm::relu, true, 1);
}

TYPED_TEST(OwnBatchNorm, ANanIsNotRectifiedAway) {
  const BatchNormSizes s{8, 8};
  Layer<TypeParam> l(s);
  l.x[9] = std::numeric_limits<double>::quiet_NaN();
  const Array<TypeParam> x(l.x), y(64);
  const Array<float> mean(l.mean), variance(l.variance), scale(l.scale), shift(l.shift);
  batch_norm_forward<TypeParam>(s, AfterNorm::relu, x.data(), mean.data(), variance.data(),
                                scale.data(), shift.data(), nullptr, y.data(), nullptr);
  EXPECT_TRUE(std::isnan(number(y.data()[9])));
  const Statistics got = statistics(s, x);
  EXPECT_TRUE(std::isnan(got.mean.data()[1]) && std::isnan(got.variance.data()[1]));
}

template <class T>
struct Gradients {
  Array<T> dx, dresidual;
  Array<float> dscale, dshift;
  std::vector<std::byte> bits() const { return bits_of(dx, dresidual, dscale, dshift); }
};

enum class MaskOf { output, input };

template <class T>
void expect_backward(const Layer<T>& l, AfterNorm after, std::int64_t offset,
                     MaskOf mask = MaskOf::output) {
  const BatchNormSizes& s = l.s;
  SCOPED_TRACE(testing::Message() << s.rows << " x " << s.channels);
  const Array<T> x(l.x, offset), dy(l.dy, offset);
  const Array<float> mean(l.mean), variance(l.variance), scale(l.scale), shift(l.shift);
  // Any output will do for the mask that is read.
  Numbers output = normal<T>(s.rows * s.channels, 26);
  if (mask == MaskOf::input) {
    const Array<T> own(s.rows * s.channels, offset);
    batch_norm_forward<T>(s, after, x.data(), mean.data(), variance.data(), scale.data(),
                          shift.data(), nullptr, own.data(), nullptr);
    output = own.numbers();
  }
  const Array<T> y(output, offset);
  const auto arguments = [&] {
    return BatchNormGradients<T>{.x = x.data(),
                                 .y = mask == MaskOf::input ? nullptr : y.data(),
                                 .dy = dy.data(),
                                 .mean = mean.data(),
                                 .variance = variance.data(),
                                 .scale = scale.data(),
                                 .shift = shift.data()};
  };
  const auto space = scratch(batch_norm_scratch_bytes<T>(s));
  const std::int64_t count = s.rows * s.channels;
  const auto got = in_both_orders([&] {
    Gradients<T> r{Array<T>(count, offset), Array<T>(count, offset), Array<float>(s.channels),
                   Array<float>(s.channels)};
    BatchNormGradients<T> g = arguments();
    g.dx = r.dx.data();
    g.dresidual = r.dresidual.data();
    g.dscale = r.dscale.data();
    g.dshift = r.dshift.data();
    batch_norm_backward(s, after, g, space.data(), nullptr);
    return r;
  });
  Numbers masked = l.dy, dx(l.x.size()), dscale(l.scale.size()), dshift(l.scale.size());
  if (after == AfterNorm::relu)
    reference::elementwise_backward(Relu{}, count, output.data(), l.dy.data(), masked.data());
  reference::batch_norm_backward(s.rows, s.channels, double{s.epsilon}, l.x.data(), l.mean.data(),
                                 l.variance.data(), l.scale.data(), masked.data(), dx.data(),
                                 dscale.data(), dshift.data());
  const double slack = 4e-6 * l.largest_factor();
  expect_close(got.dx, dx, slack, "dx");
  expect_close(got.dresidual, masked, 0, "dresidual");
  expect_close(got.dscale, dscale, slack * std::sqrt(double(s.rows)), "dscale");
  expect_close(got.dshift, dshift, 2e-6 * std::sqrt(double(s.rows)), "dshift");

  // Split and in place: dx over dy, then parameters alone.
  const auto in_place = Array<T>(l.dy, offset);
  BatchNormGradients<T> g = arguments();
  g.dy = in_place.data();
  g.dx = in_place.data();
  batch_norm_backward(s, after, g, space.data(), nullptr);
  EXPECT_TRUE(in_place.bits() == got.dx.bits()) << "dx in the place of dy";
  const Array<float> dshift_alone(s.channels);
  g = arguments();
  g.dshift = dshift_alone.data();
  batch_norm_backward(s, after, g, space.data(), nullptr);
  EXPECT_TRUE(dshift_alone.bits() == got.dshift.bits()) << "dshift alone";
  const auto mask_in_place = Array<T>(l.dy, offset);
  g = arguments();
  g.dy = mask_in_place.data();
  g.dresidual = mask_in_place.data();
  batch_norm_backward(s, after, g, space.data(), nullptr);
  EXPECT_TRUE(mask_in_place.bits() == got.dresidual.bits()) << "dresidual in the place of dy";
}

TYPED_TEST(OwnBatchNorm, Backward) {
  for (const BatchNormSizes& s : kShapes) {
    if (s.rows == 1) continue;  // a variance of 0: dx is 0 times a large number
    const Layer<TypeParam> l(s);
    for (const AfterNorm after : {AfterNorm::nothing, AfterNorm::relu})
      expect_backward(l, after, 0);
    expect_backward(l, AfterNorm::relu, 0, MaskOf::input);
  }
  for (const MaskOf mask : {MaskOf::output, MaskOf::input})
    expect_backward(Layer<TypeParam>({40, 16}), AfterNorm::relu, 1, mask);
}

}  // namespace batch_norm_test
}  // namespace hetpipe::cuda
