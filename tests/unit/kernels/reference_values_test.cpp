// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "kernels/devices.h"
#include "kernels/host_device.h"
#include "tests/unit/kernels/layer_cases.h"

// Values known by hand, on both devices.
namespace hetpipe {
namespace reference_values_test {

using test::kLayerKey;
using test::LayerCase;
using test::LayerResult;
using test::LayerValues;

using Floats = std::vector<float>;

class KnownValues : public testing::TestWithParam<const char*> {
 protected:
  std::unique_ptr<Device> device_ = make_device(GetParam(), 1);
};

TEST_P(KnownValues, ConvolutionIsACrossCorrelation) {
  const LayerCase c{Convolution{1, 2, 1, 1}, {{1, 2, 2, 1}}};
  LayerValues v = make_values(c);
  v.inputs = {{1, 2, 3, 4}};
  v.parameters = {{10, 20, 30, 40}, {0.5f}};
  EXPECT_EQ(run_layer(*device_, c, v).output,
            (Floats{40.5f, 110.5f, 60.5f, 140.5f, 300.5f, 140.5f, 60.5f, 110.5f, 40.5f}));
}

TEST_P(KnownValues,
       ConvolutionWeightsAreOihw) {  // two input channels, distinguished by their weight
  const LayerCase c{Convolution{2, 1, 1, 0, false}, {{1, 1, 1, 2}}};
  LayerValues v = make_values(c);
  v.inputs = {{1, 10}};
  v.parameters = {{1, 2, 3, 4}};
  EXPECT_EQ(run_layer(*device_, c, v).output, (Floats{21, 43}));
}

TEST_P(KnownValues, LinearWeightsAreInByOut) {
  const LayerCase c{Linear{3}, {{1, 2}}};
  LayerValues v = make_values(c);
  v.inputs = {{1, 10}};
  v.parameters = {{1, 2, 3, 4, 5, 6}, {100, 200, 300}};
  EXPECT_EQ(run_layer(*device_, c, v).output, (Floats{141, 252, 363}));
}

// Values 0, 2, 4, 6 of one channel: mean 3, biased variance 5, unbiased 20/3.
TEST_P(KnownValues, BatchNormStatistics) {
  const LayerCase c{BatchNorm{1e-5f, 0.1f}, {{2, 2, 1, 1}}};
  LayerValues v = make_values(c);
  v.inputs = {{0, 2, 4, 6}};
  v.parameters = {{2}, {1}};
  v.statistics = {{10}, {1}};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_NEAR(r.statistics[0][0], 0.9 * 10 + 0.1 * 3, 1e-5);
  EXPECT_NEAR(r.statistics[1][0], 0.9 * 1 + 0.1 * 20 / 3, 1e-6);
  for (std::size_t i = 0; i < 4; ++i) {
    const double x = 2.0 * static_cast<double>(i);
    EXPECT_NEAR(r.output[i], (x - 3) / std::sqrt(5 + 1e-5) * 2 + 1, 1e-5);
    EXPECT_NEAR(r.evaluated[i], (x - 10) / std::sqrt(1 + 1e-5) * 2 + 1, 1e-4);
  }
}

TEST_P(KnownValues, BatchNormOfOneRowLeavesTheRunningVariance) {
  const LayerCase c{BatchNorm{1e-5f, 0.5f}, {{1, 2}}};
  LayerValues v = make_values(c);
  v.inputs = {{4, -4}};
  v.parameters = {{1, 1}, {7, 8}};
  v.statistics = {{0, 0}, {3, 5}};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.statistics[0], (Floats{2, -2}));
  EXPECT_EQ(r.statistics[1], (Floats{3, 5}));
  EXPECT_EQ(r.output, (Floats{7, 8}));
}

TEST_P(KnownValues, ReComputationUpdatesNoStatistics) {
  const std::unique_ptr<Stream> stream = device_->make_stream();
  const Shape in = {4, 3};
  const std::unique_ptr<LayerKernel> kernel = device_->make_kernel(BatchNorm{}, {in}, 0);
  const Floats x = test::normal_values(1, in.elements()), scale(3, 1.0f), shift(3, 0.0f);
  Floats mean = {1, 2, 3}, variance = {4, 5, 6}, y(12), stash(6);
  const std::byte* inputs[] = {activations(x.data())};
  const float* parameters[] = {scale.data(), shift.data()};
  float* statistics[] = {mean.data(), variance.data()};
  ForwardArguments f;
  f.inputs = inputs;
  f.parameters = parameters;
  f.statistics = statistics;
  f.output = activations(y.data());
  f.stash = reinterpret_cast<std::byte*>(stash.data());
  f.update_statistics = false;
  kernel->forward(*stream, f);
  EXPECT_EQ(mean, (Floats{1, 2, 3}));
  EXPECT_EQ(variance, (Floats{4, 5, 6}));
  const Floats first = y;
  f.update_statistics = true;
  kernel->forward(*stream, f);
  EXPECT_EQ(y, first);
  EXPECT_NE(mean[0], 1);
  EXPECT_NE(variance[0], 4);
}

TEST_P(KnownValues, MaxPoolGivesTiesToTheFirst) {
  const LayerCase c{MaxPool{2, 2, 0}, {{1, 2, 4, 1}}};
  LayerValues v = make_values(c);
  v.inputs = {{5, 5, 1, 2,  //
               5, 5, 2, 2}};
  v.output_gradient = {10, 20};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.output, (Floats{5, 2}));
  EXPECT_EQ(r.input_gradients[0], (Floats{10, 0, 0, 20, 0, 0, 0, 0}));
}

TEST_P(KnownValues, MaxPoolPaddingNeverWins) {
  const LayerCase c{MaxPool{3, 2, 1}, {{1, 3, 3, 1}}};
  LayerValues v = make_values(c);
  v.inputs = {{-9, -8, -7, -6, -5, -4, -3, -2, -1}};
  v.output_gradient = {1, 2, 3, 4};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.output, (Floats{-5, -4, -2, -1}));
  EXPECT_EQ(r.input_gradients[0], (Floats{0, 0, 0, 0, 1, 2, 0, 3, 4}));
}

TEST_P(KnownValues, MaxPoolWindowsThatOverlapAddTheirGradients) {
  const LayerCase c{MaxPool{2, 1, 0}, {{1, 2, 3, 1}}};
  LayerValues v = make_values(c);
  v.inputs = {{0, 9, 0, 0, 0, 0}};
  v.output_gradient = {1, 2};
  EXPECT_EQ(run_layer(*device_, c, v).input_gradients[0], (Floats{0, 3, 0, 0, 0, 0}));
}

TEST_P(KnownValues, AveragePoolOfTheImageAlone) {
  const LayerCase c{AveragePool{2, 2, 1, false}, {{1, 2, 3, 1}}};
  LayerValues values = make_values(c);
  values.inputs[0] = {1, 2, 3, 4, 5, 6};
  values.output_gradient = {1, 8, 1, 8};
  const LayerResult r = run_layer(*device_, c, values);
  EXPECT_EQ(r.output, (std::vector<float>{1, 2.5f, 4, 5.5f}));
  EXPECT_EQ(r.input_gradients[0], (std::vector<float>{1, 4, 4, 1, 4, 4}));
}

TEST_P(KnownValues, ConcatPutsChannelsSideBySide) {
  const LayerCase c{Concat{}, {{1, 1, 2, 2}, {1, 1, 2, 1}}};
  LayerValues values = make_values(c);
  values.inputs = {{1, 2, 3, 4}, {5, 6}};
  values.output_gradient = {1, 2, 3, 4, 5, 6};
  const LayerResult r = run_layer(*device_, c, values);
  EXPECT_EQ(r.output, (std::vector<float>{1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(r.input_gradients[0], (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(r.input_gradients[1], (std::vector<float>{3, 6}));
}

TEST_P(KnownValues, ShiftMovesUpAndLeft) {
  const LayerCase c{Shift{1, 1}, {{1, 2, 3, 1}}};
  LayerValues values = make_values(c);
  values.inputs[0] = {1, 2, 3, 4, 5, 6};
  values.output_gradient = {1, 2, 3, 4, 5, 6};
  const LayerResult r = run_layer(*device_, c, values);
  EXPECT_EQ(r.output, (std::vector<float>{5, 6, 0, 0, 0, 0}));
  EXPECT_EQ(r.input_gradients[0], (std::vector<float>{0, 0, 0, 0, 1, 2}));
}

TEST_P(KnownValues, Relu) {
  const LayerCase c{Relu{}, {{1, 3}}};
  LayerValues values = make_values(c);
  values.inputs[0] = {-1, 0, 2};
  EXPECT_EQ(run_layer(*device_, c, values).output, (Floats{0, 0, 2}));
}

// SELU(-1) = 1.0507009873554805 * 1.6732632423543772 * (1/e - 1), SELU(1) = 1.0507009873554805.
TEST_P(KnownValues, Selu) {
  const LayerCase c{Selu{}, {{1, 4}}};
  LayerValues values = make_values(c);
  values.inputs[0] = {1, -1, 0, -100};
  const LayerResult r = run_layer(*device_, c, values);
  EXPECT_FLOAT_EQ(r.output[0], 1.05070099f);
  EXPECT_FLOAT_EQ(r.output[1], -1.11133074f);
  EXPECT_EQ(r.output[2], 0);
  EXPECT_FLOAT_EQ(r.output[3], -1.75809934f);
}

// SiLU(1) = 1 / (1 + 1/e), SiLU(-1) = -1 / (1 + e); slopes by hand as well.
TEST_P(KnownValues, Silu) {
  const LayerCase c{Silu{}, {{1, 4}}};
  LayerValues values = make_values(c);
  values.inputs[0] = {1, -1, 0, 30};
  values.output_gradient = {1, 1, 1, 2};
  const LayerResult r = run_layer(*device_, c, values);
  const Floats outputs{0.73105858f, -0.26894142f, 0, 30};
  const Floats slopes{0.92767051f, 0.07232949f, 0.5f, 2};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    EXPECT_NEAR(r.output[i], outputs[i], 1e-6) << i;
    EXPECT_NEAR(r.input_gradients[0][i], slopes[i], 1e-6) << i;
  }
}

// Mean 0 and variance 1 go through both layers; 2^18 draws leave about 0.002 of wandering, and of
// their square 0.003.
TEST_P(KnownValues, SelfNormalizingLayersKeepMeanAndVariance) {
  for (const LayerSpec& spec : std::vector<LayerSpec>{Selu{}, AlphaDropout{0.3f}}) {
    const LayerCase c{spec, {{4, 1 << 16}}};
    const LayerResult r = run_layer(*device_, c, make_values(c));
    double sum = 0, squares = 0;
    for (const float y : r.output) {
      sum += static_cast<double>(y);
      squares += static_cast<double>(y) * static_cast<double>(y);
    }
    const double count = static_cast<double>(r.output.size());
    EXPECT_NEAR(sum / count, 0, 0.02) << to_string(spec);
    EXPECT_NEAR(squares / count, 1, 0.02) << to_string(spec);
  }
}

TEST_P(KnownValues, AveragePoolCountsPaddingAsZeros) {
  const LayerCase c{AveragePool{2, 2, 1}, {{1, 2, 2, 1}}};
  LayerValues v = make_values(c);
  v.inputs = {{4, 8, 12, 16}};
  EXPECT_EQ(run_layer(*device_, c, v).output, (Floats{1, 2, 3, 4}));
}

TEST_P(KnownValues, FlattenOrdersChannelsRowsColumns) {
  const LayerCase c{Flatten{}, {{1, 2, 3, 2}}};
  LayerValues v = make_values(c);  // element = 100*channel + 10*row + column
  v.inputs = {{0, 100, 1, 101, 2, 102, 10, 110, 11, 111, 12, 112}};
  EXPECT_EQ(run_layer(*device_, c, v).output,
            (Floats{0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112}));
}

TEST_P(KnownValues, NaNsAreNotSwallowed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  LayerValues v;
  for (const LayerCase& c : test::elementwise_cases({1, 3})) {
    v = make_values(c);
    v.inputs = {{-1, nan, 2}};
    const LayerResult r = run_layer(*device_, c, v);
    EXPECT_FALSE(std::isnan(r.output[0])) << to_string(c);
    EXPECT_TRUE(std::isnan(r.output[1])) << to_string(c);
    EXPECT_FALSE(std::isnan(r.output[2])) << to_string(c);
  }
  const LayerCase pool{MaxPool{2, 2, 0}, {{1, 2, 2, 1}}};
  for (std::size_t i = 0; i < 4; ++i) {
    v = make_values(pool);
    v.inputs[0][i] = nan;
    EXPECT_TRUE(std::isnan(run_layer(*device_, pool, v).output[0])) << i;
  }
}

TEST_P(KnownValues, LossOfEqualLogitsIsTheLogarithmOfTheClasses) {
  const LayerCase c{SoftmaxCrossEntropy{}, {{2, 4}}};
  LayerValues v = make_values(c);
  v.inputs = {{0, 0, 0, 0, 5, 5, 5, 5}};
  v.labels = {0, 3};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_NEAR(r.output[0], std::log(4.0), 1e-6);
  EXPECT_NEAR(r.output[1], std::log(4.0), 1e-6);
  EXPECT_EQ(r.correct, (std::vector<std::int32_t>{1, 0}));  // of equals the first is the arg max
}

TEST_P(KnownValues, LossOfLargeLogitsIsFinite) {
  const LayerCase c{SoftmaxCrossEntropy{}, {{3, 3}}};
  LayerValues v = make_values(c);
  v.inputs = {{1e30f, 0, 0, 1e4f, -1e4f, 0, 1000, 1001, 1002}};
  v.labels = {0, 1, 2};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.output[0], 0);
  EXPECT_EQ(r.output[1], 2e4f);
  EXPECT_NEAR(r.output[2], std::log(1 + std::exp(-1.0) + std::exp(-2.0)), 1e-6);
  EXPECT_EQ(r.correct, (std::vector<std::int32_t>{1, 0, 1}));
  EXPECT_FLOAT_EQ(r.input_gradients[0][4], -1.0f / test::kLossSamples);
  EXPECT_EQ(r.evaluated, r.output);
}

TEST_P(KnownValues, DropoutDrawsByCounter) {
  const std::int64_t features = 1000;
  const LayerCase c{Dropout{0.3f}, {{4, features}}};
  LayerValues v = make_values(c);
  v.inputs = {Floats(4000, 1.0f)};
  v.samples = {{2, 40}, {2, 41}, {2, 42}, {3, 40}};
  const LayerResult r = run_layer(*device_, c, v);
  EXPECT_EQ(r.evaluated, v.inputs[0]);
  const auto sample = [&](const Floats& y, std::int64_t n) {
    return Floats(y.begin() + n * features, y.begin() + (n + 1) * features);
  };
  EXPECT_NE(sample(r.output, 0), sample(r.output, 3));  // another epoch, another draw
  EXPECT_NE(sample(r.output, 0), sample(r.output, 1));
  for (std::int64_t e = 0; e < features; ++e) {  // the draw the layer's contract names
    const float draw = random_uniform(random_key({kLayerKey, 2, 41}), std::uint64_t(e));
    EXPECT_EQ(r.output[std::size_t(features + e)], draw < 0.3f ? 0.0f : 1 / (1 - 0.3f));
  }
  const double mean = std::accumulate(r.output.begin(), r.output.end(), 0.0) / 4000;
  EXPECT_NEAR(mean, 1, 5 * std::sqrt(0.3 / 0.7 / 4000));  // five deviations
  // The same sample in another batch, at another place.
  const LayerCase other{Dropout{0.3f}, {{2, features}}};
  LayerValues w = make_values(other);
  w.inputs = {Floats(2000, 1.0f)};
  w.samples = {{2, 42}, {2, 40}};
  const LayerResult s = run_layer(*device_, other, w);
  EXPECT_EQ(sample(s.output, 0), sample(r.output, 2));
  EXPECT_EQ(sample(s.output, 1), sample(r.output, 0));
}

INSTANTIATE_TEST_SUITE_P(Devices, KnownValues, testing::Values("cpu", "reference"));

TEST(ReferenceLossDeathTest, ALabelOutsideTheClassesIsABug) {
  const std::unique_ptr<Device> device = make_device("reference", 1);
  const LayerCase c{SoftmaxCrossEntropy{}, {{1, 3}}};
  LayerValues v = make_values(c);
  v.labels = {3};
  EXPECT_DEATH(run_layer(*device, c, v), "label outside");
}

}  // namespace reference_values_test
}  // namespace hetpipe
