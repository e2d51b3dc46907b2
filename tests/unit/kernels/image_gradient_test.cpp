// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/reference/adaptive_pool.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/group_norm.h"
#include "kernels/reference/layer_norm.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/loss.h"
#include "kernels/reference/pooling.h"
#include "kernels/reference/recurrent.h"
#include "kernels/reference/regression_loss.h"
#include "kernels/reference/resize.h"
#include "tests/unit/kernels/finite_differences.h"

// Gradients of the layers that models from elsewhere bring, against central differences.
namespace hetpipe {
namespace image_gradient_test {

using test::expect_gradient;
using test::sized;
using test::Values;
using test::values;

TEST(ImageGradient, GroupedDilatedAndUnevenConvolution) {
  const struct {
    Convolution spec;
    Shape in;
  } cases[] = {
      {{.output_channels = 6, .padding = 1, .groups = 3}, {2, 4, 3, 3}},
      {{.output_channels = 4, .stride = {1, 2}, .groups = 2}, {1, 5, 6, 4}},
      {{.output_channels = 2, .kernel = 2, .padding = 1, .dilation = {2, 1}}, {1, 4, 3, 2}},
      {{.output_channels = 2, .kernel = {2, 4}, .padding = {0, 1}, .padding_end = Sides{1, 2}},
       {1, 3, 5, 1}},
      {{.output_channels = 2, .kernel = 3, .stride = 2, .padding = 2, .dilation = 2}, {1, 6, 5, 1}},
  };
  for (const auto& [spec, in] : cases) {
    SCOPED_TRACE(to_string(LayerSpec{spec}) + " of " + to_string(in));
    const Shape out = window_of(spec).output(in, spec.output_channels);
    const std::int64_t weights = out[3] * in[3] / spec.groups * window_of(spec).taps();
    Values x = values(1, in.elements()), w = values(2, weights), b = values(3, out[3]);
    const Values dy = values(4, out.elements());
    const auto forward = [&, &spec = spec, &in = in] {
      Values y = sized(out.elements());
      reference::convolution_forward(spec, in, x.data(), w.data(), b.data(), y.data());
      return y;
    };
    Values dx = sized(in.elements()), dw = sized(weights);
    reference::convolution_input_gradient(spec, in, dy.data(), w.data(), dx.data());
    expect_gradient(x, dx, dy, forward);
    reference::convolution_weight_gradient(spec, in, x.data(), dy.data(), dw.data());
    expect_gradient(w, dw, dy, forward);
  }
}

TEST(ImageGradient, TransposedConvolution) {
  const struct {
    TransposedConvolution spec;
    Shape in;
  } cases[] = {
      {{.output_channels = 3}, {2, 3, 2, 2}},
      {{.output_channels = 4, .kernel = 3, .padding = 1, .output_padding = {1, 0}, .groups = 2},
       {1, 3, 4, 2}},
      {{.output_channels = 1, .kernel = {3, 2}, .stride = {1, 3}, .dilation = 2}, {1, 2, 3, 2}}};
  for (const auto& [spec, in] : cases) {
    SCOPED_TRACE(to_string(LayerSpec{spec}) + " of " + to_string(in));
    const Shape out = transposed_output(spec, in);
    const std::int64_t weights = in[3] * out[3] / spec.groups * window_of(spec).taps();
    Values x = values(1, in.elements()), w = values(2, weights), b = values(3, out[3]);
    const Values dy = values(4, out.elements());
    const auto forward = [&, &spec = spec, &in = in] {
      Values y = sized(out.elements());
      reference::transposed_convolution_forward(spec, in, x.data(), w.data(), b.data(), y.data());
      return y;
    };
    Values dx = sized(in.elements()), dw = sized(weights);
    reference::transposed_convolution_input_gradient(spec, in, dy.data(), w.data(), dx.data());
    expect_gradient(x, dx, dy, forward);
    reference::transposed_convolution_weight_gradient(spec, in, x.data(), dy.data(), dw.data());
    expect_gradient(w, dw, dy, forward);
  }
}

TEST(ImageGradient, PoolsWithCeilModeAndDilation) {
  const Shape in{2, 6, 5, 2};
  for (const MaxPool& p : {MaxPool{.kernel = 3, .padding = 1, .ceil_mode = true},
                           MaxPool{.kernel = 2, .stride = {2, 1}, .padding = 1, .dilation = 2}}) {
    const Window window = window_of(p);
    const std::int64_t outputs = window.output(in, in[3]).elements();
    Values x = values(1, in.elements()), dx = sized(in.elements());
    const Values dy = values(2, outputs);
    std::vector<std::uint8_t> winner(static_cast<std::size_t>(outputs));
    const auto forward = [&] {
      Values y = sized(outputs);
      reference::max_pool_forward(window, in, x.data(), y.data(), winner.data());
      return y;
    };
    forward();
    reference::max_pool_backward(window, in, dy.data(), winner.data(), dx.data());
    expect_gradient(x, dx, dy, forward);
  }
  for (const bool count_padding : {true, false}) {
    const Window window = window_of(AveragePool{.kernel = 3, .padding = 1, .ceil_mode = true});
    const std::int64_t outputs = window.output(in, in[3]).elements();
    Values x = values(1, in.elements()), dx = sized(in.elements());
    const Values dy = values(2, outputs);
    reference::average_pool_backward(window, in, count_padding, dy.data(), dx.data());
    expect_gradient(x, dx, dy, [&] {
      Values y = sized(outputs);
      reference::average_pool_forward(window, in, count_padding, x.data(), y.data());
      return y;
    });
  }
}

TEST(ImageGradient, AdaptivePool) {
  const Shape in{2, 5, 7, 2};
  for (const auto& [rows, columns] : {std::pair{1, 1}, {3, 2}, {6, 7}, {2, 9}}) {
    const AdaptivePool p{false, rows, columns};
    const std::int64_t outputs = in[0] * rows * columns * in[3];
    Values x = values(1, in.elements()), dx = sized(in.elements());
    const Values dy = values(2, outputs);
    reference::adaptive_average_backward(p, in, dy.data(), dx.data());
    expect_gradient(x, dx, dy, [&] {
      Values y = sized(outputs);
      reference::adaptive_average_forward(p, in, x.data(), y.data());
      return y;
    });
    std::vector<std::int32_t> winner(static_cast<std::size_t>(outputs));
    const auto maximum = [&] {
      Values y = sized(outputs);
      reference::adaptive_max_forward(p, in, x.data(), y.data(), winner.data());
      return y;
    };
    maximum();
    reference::adaptive_max_backward(p, in, dy.data(), winner.data(), dx.data());
    expect_gradient(x, dx, dy, maximum);
  }
}

TEST(ImageGradient, Resize) {
  const Shape in{1, 4, 3, 2};
  for (const Resize& r : {Resize{Resize::Kind::nearest, 7, 2, 4.0 / 7, 3.0 / 2},
                          Resize{Resize::Kind::bilinear, 8, 2, 0.5, 1.5},
                          Resize{Resize::Kind::bilinear, 3, 7, 1 / 0.8, 1 / 2.4},
                          Resize{Resize::Kind::bilinear_aligned, 7, 2, 0.5, 2}}) {
    const std::int64_t outputs = in[0] * r.rows * r.columns * in[3];
    Values x = values(1, in.elements()), dx = sized(in.elements());
    const Values dy = values(2, outputs);
    reference::resize_backward(r, in, dy.data(), dx.data());
    expect_gradient(x, dx, dy, [&] {
      Values y = sized(outputs);
      reference::resize_forward(r, in, x.data(), y.data());
      return y;
    });
  }
}

TEST(ImageGradient, GroupNorm) {
  constexpr double kEpsilon = 1e-3;
  for (const reference::GroupNormSizes& s :
       {reference::GroupNormSizes{2, 4, 6, 3}, {1, 5, 4, 1}, {3, 2, 4, 4}}) {
    const std::int64_t count = s.batch * s.pixels * s.channels;
    Values x = values(1, count), scale = values(2, s.channels), shift = values(3, s.channels);
    const Values dy = values(4, count);
    Values mean = sized(s.batch * s.groups), variance = mean;
    const auto forward = [&, &s = s] {
      Values y = sized(count);
      reference::group_norm_forward(s, kEpsilon, x.data(), scale.data(), shift.data(), y.data(),
                                    mean.data(), variance.data());
      return y;
    };
    forward();
    Values dx = dy, dscale = sized(s.channels), dshift = dscale;
    reference::group_norm_backward(s, kEpsilon, x.data(), mean.data(), variance.data(),
                                   scale.data(), dx.data(), dx.data(), dscale.data(),
                                   dshift.data());
    expect_gradient(x, dx, dy, forward);
    expect_gradient(scale, dscale, dy, forward);
    expect_gradient(shift, dshift, dy, forward);
  }
}

TEST(ImageGradient, RmsNorm) {
  constexpr double kEpsilon = 1e-3;
  constexpr std::int64_t kRows = 3, kFeatures = 5;
  for (const bool one_plus : {false, true}) {
    Values x = values(1, kRows * kFeatures), scale = values(2, kFeatures), square = sized(kRows);
    const Values dy = values(3, kRows * kFeatures);
    const auto forward = [&] {
      Values y = sized(kRows * kFeatures);
      for (std::int64_t r = 0; r < kRows; ++r) {
        square[static_cast<std::size_t>(r)] =
            reference::rms_norm_row(kFeatures, kEpsilon, one_plus, x.data() + r * kFeatures,
                                    scale.data(), y.data() + r * kFeatures);
      }
      return y;
    };
    forward();
    Values dx = dy, dscale = sized(kFeatures);
    reference::rms_norm_scale_gradient(kRows, kFeatures, kEpsilon, x.data(), square.data(),
                                       dy.data(), dscale.data());
    for (std::int64_t r = 0; r < kRows; ++r) {
      reference::rms_norm_row_gradient(kFeatures, kEpsilon, one_plus, x.data() + r * kFeatures,
                                       square[static_cast<std::size_t>(r)], scale.data(),
                                       dx.data() + r * kFeatures, dx.data() + r * kFeatures);
    }
    expect_gradient(x, dx, dy, forward);
    expect_gradient(scale, dscale, dy, forward);
  }
}

TEST(ImageGradient, NormsWithoutParameters) {
  constexpr std::int64_t kRows = 4, kFeatures = 3;
  constexpr double kEpsilon = 1e-3;
  const double* const none = nullptr;
  double* const unwanted = nullptr;
  Values x = values(1, kRows * kFeatures), mean = sized(kRows), variance = mean;
  const Values dy = values(2, kRows * kFeatures);
  const auto layer = [&] {
    Values y = sized(kRows * kFeatures);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      reference::layer_norm_row(kFeatures, kEpsilon, x.data() + r * kFeatures, none, none,
                                y.data() + r * kFeatures, mean[row], variance[row]);
    }
    return y;
  };
  layer();
  Values dx = sized(kRows * kFeatures);
  for (std::int64_t r = 0; r < kRows; ++r) {
    const auto row = static_cast<std::size_t>(r);
    reference::layer_norm_row_gradient(kFeatures, kEpsilon, x.data() + r * kFeatures, mean[row],
                                       variance[row], none, dy.data() + r * kFeatures,
                                       dx.data() + r * kFeatures);
  }
  expect_gradient(x, dx, dy, layer);
  const auto batch = [&] {
    Values y = sized(kRows * kFeatures);
    reference::batch_statistics(kRows, kFeatures, x.data(), mean.data(), variance.data());
    reference::batch_norm_forward(kRows, kFeatures, kEpsilon, x.data(), mean.data(),
                                  variance.data(), none, none, y.data());
    return y;
  };
  batch();
  reference::batch_norm_backward(kRows, kFeatures, kEpsilon, x.data(), mean.data(), variance.data(),
                                 none, dy.data(), dx.data(), unwanted, unwanted);
  expect_gradient(x, dx, dy, batch);
}

TEST(ImageGradient, Recurrent) {
  for (const auto kind : {Recurrent::Kind::lstm, Recurrent::Kind::gru})
    for (const bool reverse : {false, true}) {
      const reference::RecurrentSizes s({kind, 2, true, reverse}, {2, 4, 3});
      Values x = values(1, s.rows() * s.in), wi = values(2, s.gates() * s.in);
      Values wh = values(3, s.gates() * s.hidden), bi = values(4, s.gates());
      Values bh = values(5, s.gates());
      const Values dy = values(6, s.rows() * s.hidden);
      Values gates = sized(s.rows() * s.gates()), kept = sized(s.rows() * s.hidden), y = kept;
      const auto forward = [&] {
        reference::recurrent_forward(s, x.data(), wi.data(), wh.data(), bi.data(), bh.data(),
                                     gates.data(), kept.data(), y.data());
        return y;
      };
      forward();
      Values da = sized(s.rows() * s.gates()), db = da;
      reference::recurrent_gate_gradients(s, wh.data(), gates.data(), kept.data(), y.data(),
                                          dy.data(), da.data(), db.data());
      const reference::LinearSizes input{s.rows(), s.in, s.gates(), true};
      Values dx = sized(s.rows() * s.in), dwi = sized(s.gates() * s.in);
      Values dwh = sized(s.gates() * s.hidden), dbi = sized(s.gates()), dbh = dbi;
      reference::linear_input_gradient(input, da.data(), wi.data(), dx.data());
      reference::linear_weight_gradient(input, x.data(), da.data(), dwi.data());
      reference::recurrent_hidden_gradient(s, y.data(), db.data(), dwh.data());
      reference::bias_gradient(s.rows(), s.gates(), da.data(), dbi.data());
      reference::bias_gradient(s.rows(), s.gates(), db.data(), dbh.data());
      expect_gradient(x, dx, dy, forward);
      expect_gradient(wi, dwi, dy, forward);
      expect_gradient(wh, dwh, dy, forward);
      expect_gradient(bi, dbi, dy, forward);
      expect_gradient(bh, dbh, dy, forward);
    }
}

TEST(ImageGradient, RegressionLoss) {
  constexpr std::int64_t kSamples = 2, kCount = 6, kLossSamples = 8;
  using Kind = RegressionLoss::Kind;
  for (const Kind kind :
       {Kind::squared, Kind::absolute, Kind::smooth_l1, Kind::binary_with_logits}) {
    const RegressionLoss l{kind, 0.7f};
    Values x = values(1, kSamples * kCount), dx = sized(kSamples * kCount);
    const Values targets = values(2, kSamples * kCount);
    for (std::int64_t n = 0; n < kSamples; ++n) {
      reference::regression_loss_backward(l, kCount, x.data() + n * kCount,
                                          targets.data() + n * kCount, kLossSamples,
                                          dx.data() + n * kCount);
    }
    const Values dy(static_cast<std::size_t>(kSamples), 1.0 / kLossSamples);
    expect_gradient(x, dx, dy, [&] {
      Values loss;
      for (std::int64_t n = 0; n < kSamples; ++n) {
        loss.push_back(reference::regression_loss_mean(l, kCount, x.data() + n * kCount,
                                                       targets.data() + n * kCount));
      }
      return loss;
    });
  }
}

// With class weights and labels left out, the mean is over what the labels weigh.
TEST(ImageGradient, WeighedCrossEntropy) {
  reference::LossSizes s{2, 3, 4};
  s.skips = true;
  for (const bool weighed : {false, true})
    for (const double smoothing : {0.0, 0.3}) {
      s.weights = weighed ? ConstantTable<float>({0.5f, 2, 1, 0.25f}) : ConstantTable<float>();
      const std::vector<std::int32_t> labels = {1, kNoLabel, 3, 0, 2, kNoLabel};
      constexpr double kWeight = 1.4;
      Values x = values(1, s.batch * s.tokens * s.classes), dx = x, probabilities = x, loss(2);
      const auto forward = [&] {
        reference::softmax_cross_entropy_forward(s, smoothing, x.data(), labels.data(), loss.data(),
                                                 probabilities.data(), nullptr, kWeight);
        return loss;
      };
      forward();
      reference::softmax_cross_entropy_backward(s, smoothing, probabilities.data(), labels.data(),
                                                12, 0, s.batch * s.tokens, dx.data(), 1, kWeight);
      expect_gradient(x, dx, Values(2, 1.0 / 12), forward);
    }
}

}  // namespace image_gradient_test
}  // namespace hetpipe
