// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/group_norm.h"

#include "kernels/cuda/own/regression_loss.h"
#include "kernels/reference/group_norm.h"
#include "kernels/reference/regression_loss.h"
#include "tests/unit/kernels/cuda/reductions/arrays.h"

namespace hetpipe::cuda {
namespace group_norm_test {

using namespace test;
using Numbers = std::vector<double>;

template <class T>
class OwnGroupNorm : public testing::Test {};
TYPED_TEST_SUITE(OwnGroupNorm, ElementTypes);

Numbers sized(std::int64_t count) { return Numbers(static_cast<std::size_t>(count)); }

template <class T>
struct Results {
  Array<T> y, dx;
  Array<float> mean, variance, dscale, dshift;
  std::vector<std::byte> bits() const { return bits_of(y, dx, mean, variance, dscale, dshift); }
};

TYPED_TEST(OwnGroupNorm, GroupNorm) {
  using T = TypeParam;
  for (const GroupNormSizes& s : {GroupNormSizes{2, 9, 12, 3, 1e-3f},
                                  {1, 1, 8, 2, 1e-3f},
                                  {3, 30, 7, 1, 1e-3f},
                                  {1, 400, 16, 16, 1e-3f}}) {
    const std::int64_t count = s.batch * s.pixels * s.channels, groups = s.batch * s.groups;
    SCOPED_TRACE(testing::Message() << s.batch << " x " << s.pixels << " x " << s.channels);
    const Numbers x = normal<T>(count, 1, 0.5, 2), dy = normal<T>(count, 2);
    const Numbers scale = normal<float>(s.channels, 3), shift = normal<float>(s.channels, 4);
    const Array<T> xs(x, 1);
    const Array<float> scales(scale), shifts(shift);
    const auto got = in_both_orders([&] {
      Results<T> r{Array<T>(count),          Array<T>(dy),
                   Array<float>(groups),     Array<float>(groups),
                   Array<float>(s.channels), Array<float>(s.channels)};
      group_norm_forward(s, xs.data(), scales.data(), shifts.data(), r.y.data(), r.mean.data(),
                         r.variance.data(), nullptr);
      const auto space = scratch(group_norm_scratch_bytes<T>(s));
      group_norm_parameter_gradients(s, xs.data(), r.mean.data(), r.variance.data(), r.dx.data(),
                                     r.dscale.data(), r.dshift.data(), space.data(), nullptr);
      group_norm_input_gradient(s, xs.data(), r.mean.data(), r.variance.data(), scales.data(),
                                r.dx.data(), r.dx.data(), nullptr);
      return r;
    });
    const reference::GroupNormSizes sizes{s.batch, s.pixels, s.channels, s.groups};
    Numbers y = sized(count), dx = sized(count), mean = sized(groups), variance = sized(groups);
    Numbers dscale = sized(s.channels), dshift = sized(s.channels);
    reference::group_norm_forward(sizes, double{s.epsilon}, x.data(), scale.data(), shift.data(),
                                  y.data(), mean.data(), variance.data());
    reference::group_norm_backward(sizes, double{s.epsilon}, x.data(), mean.data(), variance.data(),
                                   scale.data(), dy.data(), dx.data(), dscale.data(),
                                   dshift.data());
    expect_close(got.y, y, 2e-5, "y");
    expect_close(got.dx, dx, 2e-5, "dx");
    expect_close(got.dscale, dscale, 2e-4, "dscale");
    expect_close(got.dshift, dshift, 2e-4, "dshift");
  }
}

TYPED_TEST(OwnGroupNorm, RmsNorm) {
  using T = TypeParam;
  for (const std::int64_t features : {1, 7, 64, 1032, 1035, 1301, 1600, 8200, 10248})
    for (const bool one_plus : {false, true}) {
      const RmsNormSizes s{5, features, 1e-3f, one_plus};
      const std::int64_t count = s.rows * features;
      SCOPED_TRACE(testing::Message() << features << " features");
      const Numbers x = normal<T>(count, 1), dy = normal<T>(count, 2);
      const Numbers scale = normal<float>(features, 3);
      const Array<T> xs(x);
      const Array<float> scales(scale, 1);
      const auto got = in_both_orders([&] {
        Results<T> r{Array<T>(count),        Array<T>(dy),
                     Array<float>(s.rows),   Array<float>(std::int64_t{0}),
                     Array<float>(features), Array<float>(std::int64_t{0})};
        rms_norm_forward(s, xs.data(), scales.data(), r.y.data(), r.mean.data(), nullptr);
        const auto space = scratch(rms_norm_scratch_bytes<T>(s));
        rms_norm_scale_gradient(s, xs.data(), r.mean.data(), r.dx.data(), r.dscale.data(),
                                space.data(), nullptr);
        rms_norm_input_gradient(s, xs.data(), r.mean.data(), scales.data(), r.dx.data(),
                                r.dx.data(), nullptr);
        return r;
      });
      Numbers y = sized(count), dx = sized(count), square = sized(s.rows), dscale = sized(features);
      double factor = 1;
      for (std::int64_t r = 0; r < s.rows; ++r) {
        const auto k = static_cast<std::size_t>(r);
        const std::int64_t at = r * features;
        square[k] = reference::rms_norm_row(features, double{s.epsilon}, one_plus, x.data() + at,
                                            scale.data(), y.data() + at);
        reference::rms_norm_row_gradient(features, double{s.epsilon}, one_plus, x.data() + at,
                                         square[k], scale.data(), dy.data() + at, dx.data() + at);
        factor = std::max(factor, 1 / std::sqrt(square[k] + double{s.epsilon}));
      }
      reference::rms_norm_scale_gradient(s.rows, features, double{s.epsilon}, x.data(),
                                         square.data(), dy.data(), dscale.data());
      expect_close(got.y, y, 4e-6 * factor, "y");
      expect_close(got.dx, dx, 8e-6 * factor, "dx");
      expect_close(got.dscale, dscale, 2e-5, "dscale");
    }
}

template <class T>
struct Losses {
  Array<float> loss;
  Array<T> dx;
  std::vector<std::byte> bits() const { return bits_of(loss, dx); }
};

TYPED_TEST(OwnGroupNorm, RegressionLoss) {
  using T = TypeParam;
  for (const std::int64_t count : {1, 7, 300})
    for (int kind = 0; kind < 4; ++kind) {
      const RegressionSizes s{kind, 0.5f, 3, count};
      const RegressionLoss l{static_cast<RegressionLoss::Kind>(kind), s.beta};
      const Numbers x = normal<T>(s.batch * count, 1), target = normal<float>(s.batch * count, 2);
      const Array<T> xs(x);
      const Array<float> targets(target);
      const auto got = in_both_orders([&] {
        Losses<T> r{Array<float>(s.batch), Array<T>(s.batch * count)};
        regression_forward(s, xs.data(), targets.data(), r.loss.data(), nullptr);
        regression_backward(s, xs.data(), targets.data(), 1 / (8.0f * static_cast<float>(count)),
                            r.dx.data(), nullptr);
        return r;
      });
      Numbers loss = sized(s.batch), dx = sized(s.batch * count);
      for (std::int64_t n = 0; n < s.batch; ++n) {
        loss[static_cast<std::size_t>(n)] = reference::regression_loss_mean(
            l, count, x.data() + n * count, target.data() + n * count);
        reference::regression_loss_backward(l, count, x.data() + n * count,
                                            target.data() + n * count, 8, dx.data() + n * count);
      }
      expect_close(got.loss, loss, 1e-5, "loss");
      expect_close(got.dx, dx, 1e-6, "dx");
    }
}

}  // namespace group_norm_test
}  // namespace hetpipe::cuda
