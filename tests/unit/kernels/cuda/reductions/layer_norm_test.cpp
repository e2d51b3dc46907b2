// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/layer_norm.h"

#include "kernels/reference/layer_norm.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace layer_norm_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class OwnLayerNorm : public testing::Test {};
TYPED_TEST_SUITE(OwnLayerNorm, ElementTypes);

template <class T>
struct Gradients {
  Array<T> dx;
  Array<float> dscale, dshift;
  std::vector<std::byte> bits() const { return bits_of(dx, dscale, dshift); }
};
template <class T>
struct Outputs {
  Array<T> y;
  Array<float> mean, variance;
  std::vector<std::byte> bits() const { return bits_of(y, mean, variance); }
};

template <class T>
void expect_layer_norm(std::int64_t rows, std::int64_t features, std::int64_t offset,
                       double centre = 0.5) {
  SCOPED_TRACE(testing::Message() << rows << " x " << features << ", offset " << offset);
  const LayerNormSizes s{rows, features};
  const std::int64_t count = rows * features;
  const Numbers x = normal<T>(count, 31, centre, 2), scale = normal<float>(features, 32),
                shift = normal<float>(features, 33), dy = normal<T>(count, 34);
  const Array<T> xs(x, offset), dys(dy, offset);
  const Array<float> scales(scale, rows % 4), shifts(shift, rows % 2);  // anywhere
  const auto got = in_both_orders([&] {
    Outputs<T> r{Array<T>(count, offset), Array<float>(rows), Array<float>(rows)};
    layer_norm_forward(s, xs.data(), scales.data(), shifts.data(), r.y.data(), r.mean.data(),
                       r.variance.data(), nullptr);
    return r;
  });
  const Array<T> evaluated(x, offset);  // in place, and nothing kept
  layer_norm_forward<T>(s, evaluated.data(), scales.data(), shifts.data(), evaluated.data(),
                        nullptr, nullptr, nullptr);
  EXPECT_TRUE(evaluated.bits() == got.y.bits());

  Numbers y(x.size()), mean(static_cast<std::size_t>(rows)), variance(mean);
  double factor = 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto k = static_cast<std::size_t>(r);
    reference::layer_norm_row<double>(features, double{s.epsilon}, x.data() + r * features,
                                      scale.data(), shift.data(), y.data() + r * features, mean[k],
                                      variance[k]);
    factor = std::max(factor, 1 / std::sqrt(variance[k] + double{s.epsilon}));
  }
  const double slack = 4e-6 * factor * (1 + std::abs(centre));
  expect_close(got.y, y, slack, "y");
  expect_close(got.mean, mean, 1e-6 * (1 + std::abs(centre)), "mean");
  expect_close(got.variance, variance, 4e-6 * (4 + 1e-3 * std::abs(centre)), "variance");

  const Numbers kept_mean = got.mean.numbers(), kept_variance = got.variance.numbers();
  Numbers dx(x.size()), dscale(scale.size()), dshift(scale.size());
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto k = static_cast<std::size_t>(r);
    reference::layer_norm_row_gradient<double>(features, double{s.epsilon}, x.data() + r * features,
                                               kept_mean[k], kept_variance[k], scale.data(),
                                               dy.data() + r * features, dx.data() + r * features);
  }
  reference::layer_norm_parameter_gradients<double>(
      rows, features, double{s.epsilon}, 0, features, x.data(), kept_mean.data(),
      kept_variance.data(), dy.data(), dscale.data(), dshift.data());
  const auto gradients = in_both_orders([&] {
    Gradients<T> r{Array<T>(dy, offset), Array<float>(features), Array<float>(features)};
    const auto space = scratch(layer_norm_scratch_bytes<T>(s));
    layer_norm_parameter_gradients(s, xs.data(), got.mean.data(), got.variance.data(), r.dx.data(),
                                   r.dscale.data(), r.dshift.data(), space.data(), nullptr);
    layer_norm_input_gradient(s, xs.data(), got.mean.data(), got.variance.data(), scales.data(),
                              r.dx.data(), r.dx.data(), nullptr);
    return r;
  });
  expect_close(gradients.dx, dx, slack, "dx");
  expect_close(gradients.dscale, dscale, slack * std::sqrt(double(rows)), "dscale");
  expect_close(gradients.dshift, dshift, 2e-6 * std::sqrt(double(rows)), "dshift");
  const Array<float> dscale_alone(features);
  const auto space = scratch(layer_norm_scratch_bytes<T>(s));
  layer_norm_parameter_gradients<T>(s, xs.data(), got.mean.data(), got.variance.data(), dys.data(),
                                    dscale_alone.data(), nullptr, space.data(), nullptr);
  EXPECT_TRUE(dscale_alone.bits() == gradients.dscale.bits());
}

TYPED_TEST(OwnLayerNorm, EveryShape) {
  for (const std::int64_t features : {1, 2, 7, 8, 31, 64, 100, 768})
    for (const std::int64_t rows : {1, 3, 17}) expect_layer_norm<TypeParam>(rows, features, 0);
}

TYPED_TEST(OwnLayerNorm, WhereTheFormsOfRowsMeet) {
  for (const std::int64_t features : {1023, 1024, 1025, 1032, 8191, 8192, 8193, 8200, 10248})
    expect_layer_norm<TypeParam>(2, features, 0);
}

TYPED_TEST(OwnLayerNorm, ManyRows) { expect_layer_norm<TypeParam>(1100, 16, 0); }

TYPED_TEST(OwnLayerNorm, Unaligned) {
  expect_layer_norm<TypeParam>(9, 64, 1);
  expect_layer_norm<TypeParam>(2, 2048, 3);
}

TYPED_TEST(OwnLayerNorm, AboutALargeMean) { expect_layer_norm<TypeParam>(5, 768, 0, 1000); }

}  // namespace layer_norm_test
}  // namespace hetpipe::cuda
