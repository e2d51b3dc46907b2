// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

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
  for (const float share : {1.0f, 0.8f}) {
    AdamOptions o{0.01f, 0.9f, 0.999f, 1e-8f, 1e-2f};
    o.nu = share;
    std::vector<float> weights = normal_values(2, kCount);
    std::vector<double> w(weights.begin(), weights.end());
    std::vector<double> m(kCount, 0.0), v(kCount, 0.0);
    std::vector<float> first(kCount, 0.0f), second(kCount, 0.0f), delta(kCount);
    const double b1 = double(o.beta1), b2 = double(o.beta2);
    for (int step = 1; step <= 20; ++step) {
      const std::vector<float> g = normal_values(200 + static_cast<std::uint64_t>(step), kCount);
      device_->adam(*stream_, delta.data(), first.data(), second.data(), g.data(), weights.data(),
                    o, step, kCount);
      device_->add(*stream_, weights.data(), delta.data(), kCount);
      for (std::size_t i = 0; i < kCount; ++i) {
        const double gradient = g[i] + double(o.weight_decay) * w[i];
        m[i] = b1 * m[i] + (1 - b1) * gradient;
        v[i] = b2 * v[i] + (1 - b2) * gradient * gradient;
        const double nu = double{o.nu};
        const double mean = nu * m[i] / (1 - std::pow(b1, step)) + (1 - nu) * gradient;
        const double deviation = std::sqrt(v[i] / (1 - std::pow(b2, step)));
        w[i] -= double(o.rate) * mean / (deviation + double(o.epsilon));
      }
    }
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(weights[i], w[i], 1e-5);
  }
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

// Six weights and what torch.optim of PyTorch 2.15 makes of them (in double precision) by these
// gradients: element i of step t, from 1, is sin(t + 0.7 i).
constexpr std::int64_t kSix = 6;
using Six = std::vector<float>;
const Six kSixWeights{1, -2, 0.5f, 3, -0.25f, 0.125f};
Six six_gradients(int step) {
  Six gradient;
  for (int i = 0; i < kSix; ++i) gradient.push_back(static_cast<float>(std::sin(step + 0.7 * i)));
  return gradient;
}
using Change = std::function<void(Six& delta, const Six& gradient, const Six& weights, int step)>;
void expect_steps(Device& device, Stream& stream, const Change& change,
                  const std::vector<std::vector<double>>& expected) {
  Six weights = kSixWeights, delta(kSix);
  for (std::size_t step = 1; step <= expected.size(); ++step) {
    const int number = static_cast<int>(step);
    change(delta, six_gradients(number), weights, number);
    device.add(stream, weights.data(), delta.data(), kSix);
    for (std::size_t i = 0; i < kSix; ++i) {
      const double wanted = expected[step - 1][i];
      EXPECT_NEAR(weights[i], wanted, 1e-6 * std::max(std::abs(wanted), 0.1))
          << "step " << step << ", element " << i;
    }
  }
}
Change adam_steps(Device& device, Stream& stream, const AdamOptions& options) {
  return [&, options, m = Six(kSix), v = Six(kSix)](Six& delta, const Six& gradient,
                                                    const Six& weights, int step) mutable {
    device.adam(stream, delta.data(), m.data(), v.data(), gradient.data(), weights.data(), options,
                step, kSix);
  };
}
Change rmsprop_steps(Device& device, Stream& stream, const RmspropOptions& options) {
  return [&, options, v = Six(kSix)](Six& delta, const Six& gradient, const Six& weights,
                                     int) mutable {
    device.rmsprop(stream, delta.data(), v.data(), gradient.data(), weights.data(), options, kSix);
  };
}
Change sgd_steps(Device& device, Stream& stream, const SgdOptions& options) {
  return [&, options, v = Six(kSix)](Six& delta, const Six& gradient, const Six& weights,
                                     int) mutable {
    device.sgd(stream, delta.data(), v.data(), gradient.data(), weights.data(), options, kSix);
  };
}

// Adam(lr=0.01, weight_decay=0.1)
TEST_P(Optimizers, AdamAsPyTorch) {
  expect_steps(*device_, *stream_,
               adam_steps(*device_, *stream_, {.rate = 0.01f, .weight_decay = 0.1f}),
               {{0.99, -2.01, 0.49, 2.99, -0.24, 0.135},
                {0.979988012, -2.01848895, 0.485594299, 2.99253676, -0.230139737, 0.144782232},
                {0.971270782, -2.01914641, 0.488317064, 2.99845396, -0.220675246, 0.1509926},
                {0.967292083, -2.01522395, 0.493263394, 3.00248966, -0.215378783, 0.151386605},
                {0.967013022, -2.00992688, 0.496763254, 3.00059197, -0.214879558, 0.149130062}});
}

// RMSprop(lr=0.01), and with alpha=0.95, eps=1e-3, weight_decay=0.1
TEST_P(Optimizers, RmspropAsPyTorch) {
  expect_steps(*device_, *stream_, rmsprop_steps(*device_, *stream_, {}),
               {{0.900000012, -2.09999999, 0.400000015, 2.90000024, -0.150000016, 0.22499999},
                {0.826435118, -2.13974605, 0.435540221, 2.99987266, -0.0646727418, 0.283717657},
                {0.81503537, -2.09536722, 0.515471057, 3.07492396, -0.0275365922, 0.266008772},
                {0.867386034, -2.03096954, 0.570108876, 3.08960458, -0.0644303286, 0.204699269},
                {0.922855842, -1.9973944, 0.561855084, 3.03876149, -0.124396207, 0.158248095}});
  expect_steps(*device_, *stream_, rmsprop_steps(*device_, *stream_, {0.01f, 0.95f, 1e-3f, 0.1f}),
               {{0.95549007, -2.04447015, 0.455552637, 2.95585659, -0.205590492, 0.169515068},
                {0.92257485, -2.05681442, 0.468207285, 2.9933059, -0.167563331, 0.195831227},
                {0.914850564, -2.02631909, 0.503085884, 3.02533586, -0.150496948, 0.186818879},
                {0.935008043, -1.99268402, 0.527149988, 3.01908497, -0.166728992, 0.158021071},
                {0.958050031, -1.97329781, 0.52141398, 2.98445049, -0.193845033, 0.136109751}});
}

// AdamW(lr=0.01, weight_decay=0.01), and with betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1
TEST_P(Optimizers, AdamWAsPyTorch) {
  expect_steps(
      *device_, *stream_,
      adam_steps(*device_, *stream_, {.rate = 0.01f, .weight_decay = 0.01f, .decoupled = true}),
      {{0.9899, -2.0098, 0.48995, 2.9897, -0.239975, 0.1349875},
       {0.979788325, -2.01869838, 0.486268551, 2.99649294, -0.230103685, 0.144762732},
       {0.971276813, -2.02199401, 0.489613854, 3.00461026, -0.22064688, 0.151074035},
       {0.968307893, -2.02027608, 0.495056827, 3.01197843, -0.215559627, 0.151633912},
       {0.969183155, -2.01705232, 0.499187885, 3.01452325, -0.215340764, 0.149539986}});
  expect_steps(*device_, *stream_,
               adam_steps(*device_, *stream_, {0.01f, 0.8f, 0.95f, 1e-3f, 0.1f, true}),
               {{0.98901187, -2.00798993, 0.489514783, 2.98723485, -0.239766317, 0.134864781},
                {0.9780087, -2.01493106, 0.485902534, 2.99166839, -0.229611491, 0.144452517},
                {0.968938067, -2.01558176, 0.489675983, 2.99746159, -0.220040786, 0.150041129},
                {0.966245713, -2.01078991, 0.495563339, 3.00216579, -0.215639174, 0.149195499},
                {0.967801244, -2.00449311, 0.49957897, 3.00104246, -0.216744864, 0.14550246}});
}

// SGD(lr=0.01, momentum=0.9, weight_decay=0.1), plain and with nesterov=True
TEST_P(Optimizers, MomentumAsPyTorch) {
  SgdOptions options{.rate = 0.01f, .momentum = 0.9f, .weight_decay = 0.1f};
  expect_steps(*device_, *stream_, sgd_steps(*device_, *stream_, options),
               {{0.99058529, -2.00791665, 0.492745368, 2.99658419, -0.243631421, 0.134650301},
                {0.972028492, -2.01730751, 0.488278865, 2.99869615, -0.227694423, 0.150256325},
                {0.952944145, -2.01844362, 0.493286754, 3.00685637, -0.208477408, 0.162000291},
                {0.942383313, -2.00744845, 0.505028213, 3.01301533, -0.19591475, 0.163027859},
                {0.941525424, -1.99003848, 0.513925005, 3.00825569, -0.194397878, 0.155804772}});
  options.nesterov = true;
  expect_steps(*device_, *stream_, sgd_steps(*device_, *stream_, options),
               {{0.982112051, -2.01504163, 0.4862162, 2.99350997, -0.2378997, 0.143335572},
                {0.955343472, -2.02574575, 0.484271418, 3.00060276, -0.213362014, 0.164285245},
                {0.935822896, -2.01943078, 0.497819163, 3.01420527, -0.191224859, 0.172519667},
                {0.932985451, -1.99750354, 0.515620228, 3.01854984, -0.184699691, 0.163864797},
                {0.940909657, -1.97432754, 0.52194023, 3.00394762, -0.193173516, 0.149190084}});
}

// Norms 5 and 0.5, by hand; a zero on either side leaves the rate alone.
TEST_P(Optimizers, ScalesByTrust) {
  const std::vector<float> weights{3, -4}, update{0.3f, 0.4f};
  std::vector<double> squares(2);
  device_->sum_of_squares(*stream_, &squares[0], weights.data(), 2);
  device_->sum_of_squares(*stream_, &squares[1], update.data(), 2);
  std::vector<float> scaled = update;
  device_->scale_by_trust(*stream_, scaled.data(), squares.data(), 0.25f, 2);
  EXPECT_FLOAT_EQ(scaled[0], 0.75f);
  EXPECT_FLOAT_EQ(scaled[1], 1.0f);
  for (const std::vector<double>& zeros : {std::vector{0.0, 0.25}, {25.0, 0.0}}) {
    scaled = update;
    device_->scale_by_trust(*stream_, scaled.data(), zeros.data(), 0.25f, 2);
    EXPECT_EQ(scaled, (std::vector<float>{0.25f * 0.3f, 0.25f * 0.4f}));
  }
}

// In double, from the definition; sizes on both sides of lanes, blocks and tiles.
TEST_P(Optimizers, DampsAsTheDefinitionSays) {
  for (const auto& [rows, columns] : {std::pair{5, 3}, {64, 33}, {130, 70}, {300, 520}}) {
    for (const bool inputs_first : {false, true}) {
      SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", " << inputs_first);
      const DampedMatrix matrix{rows, columns, inputs_first};
      const std::vector<float> before = normal_values(4, rows * columns);
      std::vector<float> d = before;
      device_->damp(*stream_, d.data(), matrix, {0.8f});
      const auto of = [&](std::int64_t out, std::int64_t in) {
        const std::int64_t row = inputs_first ? in : out, column = inputs_first ? out : in;
        return static_cast<std::size_t>(row * matrix.columns + column);
      };
      std::vector<double> x(static_cast<std::size_t>(matrix.inputs()));
      double squares = 0;
      for (std::int64_t o = 0; o < matrix.outputs(); ++o) {
        double y = 0;
        for (std::int64_t i = 0; i < matrix.inputs(); ++i) y += before[of(o, i)];
        for (std::size_t i = 0; i < x.size(); ++i) {
          x[i] += y * before[of(o, static_cast<std::int64_t>(i))];
        }
      }
      for (const double value : x) squares += value * value;
      for (std::int64_t o = 0; o < matrix.outputs(); ++o) {
        double z = 0;
        for (std::int64_t i = 0; i < matrix.inputs(); ++i)
          z += before[of(o, i)] * x[std::size_t(i)];
        for (std::int64_t i = 0; i < matrix.inputs(); ++i) {
          const double wanted = before[of(o, i)] - 0.8 * z * x[std::size_t(i)] / squares;
          ASSERT_NEAR(d[of(o, i)], wanted, 2e-5) << o << ' ' << i;
        }
      }
    }
  }
}

// Rank one, u v^T: the whole of it is in that direction. And where inputs cancel nothing is found.
TEST_P(Optimizers, DampsAMatrixOfRankOneByItsShare) {
  const std::vector<float> u{1, -2, 3, 0.5f}, v{4, 1, 2};
  for (const bool inputs_first : {false, true}) {
    std::vector<float> d, wanted;
    for (const float a : u) {
      for (const float b : v) d.push_back(a * b);
    }
    for (const float value : d) wanted.push_back(0.25f * value);
    device_->damp(*stream_, d.data(), {4, 3, inputs_first}, {0.75f});
    for (std::size_t i = 0; i < d.size(); ++i) EXPECT_NEAR(d[i], wanted[i], 1e-6);
  }
  std::vector<float> cancels{1, -1, -2, 2};
  device_->damp(*stream_, cancels.data(), {2, 2, false}, {0.75f});
  EXPECT_EQ(cancels, (std::vector<float>{1, -1, -2, 2}));
}

// A matrix whose singular values are 16, 8, 4, 2, 1, 1, 1, 1: what is left of the large ones.
TEST_P(Optimizers, DampsSeveralDirectionsOneAfterTheOther) {
  constexpr int kSide = 8;
  const auto hadamard = [](int i, int j) {
    return (__builtin_popcount(static_cast<unsigned>(i & j)) % 2 != 0 ? -1.0 : 1.0) /
           std::sqrt(static_cast<double>(kSide));
  };
  const std::vector<double> singular{16, 8, 4, 2, 1, 1, 1, 1};
  std::vector<float> matrix;
  for (int r = 0; r < kSide; ++r) {
    for (int c = 0; c < kSide; ++c) {
      double sum = 0;
      for (int k = 0; k < kSide; ++k)
        sum += singular[std::size_t(k)] * hadamard(r, k) * hadamard(c, k);
      matrix.push_back(static_cast<float>(sum));
    }
  }
  const auto length = [](const std::vector<float>& d) {
    double squares = 0;
    for (const float value : d) squares += double{value} * value;
    return std::sqrt(squares);
  };
  std::vector<double> left;
  std::set<std::vector<float>> results;
  for (const int directions : {1, 2, 3, 4, 40}) {
    std::vector<float> d = matrix;
    device_->damp(*stream_, d.data(), {kSide, kSide, false}, {1, directions, 5});
    left.push_back(length(d));
    results.insert(d);
  }
  EXPECT_NEAR(left[0], std::sqrt(64 + 16 + 4 + 4.0), 1e-4);  // equal inputs are the first direction
  EXPECT_LT(left[1], std::sqrt(16 + 4 + 4.0) + 2);
  EXPECT_LT(left[2], std::sqrt(4 + 4.0) + 2);
  EXPECT_LT(left[3], 3);
  EXPECT_EQ(left[4], left[3]);  // half of them at most
  std::vector<float> next = matrix;
  device_->damp(*stream_, next.data(), {kSide, kSide, false}, {1, 3, 6});
  EXPECT_TRUE(results.insert(next).second);  // another step starts elsewhere
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
    double squares[2];
    device->sum_of_squares(*stream, squares, g.data(), kMany);
    device->sum_of_squares(*stream, squares + 1, w.data(), kMany);
    std::vector<float> limited = g, trusted = w, nesterov(kMany), decoupled(kMany), ahead(kMany);
    device->limit_norm(*stream, limited.data(), squares, 1, 3.0, kMany);
    device->scale_by_trust(*stream, trusted.data(), squares, 0.3f, kMany);
    device->sgd(*stream, nesterov.data(), velocity.data(), g.data(), w.data(),
                {0.1f, 0.9f, 1e-4f, true}, kMany);
    const AdamOptions adamw{.weight_decay = 0.1f, .decoupled = true};
    device->adam(*stream, decoupled.data(), first.data(), second.data(), g.data(), w.data(), adamw,
                 8, kMany);
    device->look_ahead_adam(*stream, ahead.data(), w.data(), first.data(), second.data(), adamw, 8,
                            0.02f, kMany);
    std::vector<float> damped = g, damped_inputs_first = g;
    device->damp(*stream, damped.data(), {317, 315, false}, {0.8f, 4, 77});
    device->damp(*stream, damped_inputs_first.data(), {61, 1639, true}, {0.8f, 4, 1 << 30});
    std::vector<float> rmsprop(kMany);
    device->rmsprop(*stream, rmsprop.data(), second.data(), g.data(), w.data(),
                    {.weight_decay = 0.1f}, kMany);
    for (const auto& state : {velocity, first, second, limited, trusted, nesterov, decoupled, ahead,
                              damped, damped_inputs_first, rmsprop}) {
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
