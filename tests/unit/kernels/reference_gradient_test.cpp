// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

#include "base/random.h"
#include "kernels/reference/batch_norm.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/elementwise.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/loss.h"
#include "kernels/reference/pooling.h"
#include "tests/unit/kernels/finite_differences.h"
#include "tests/unit/kernels/layer_cases.h"

// Every gradient of the reference against central differences.
namespace hetpipe {
namespace reference_gradient_test {

using test::expect_gradient;
using test::sized;
using test::Values;
using test::values;

TEST(ReferenceGradient, Convolution) {
  struct Case {
    Convolution spec;
    Shape in;
  };
  const Case cases[] = {
      {{3, 3, 1, 1}, {2, 5, 4, 2}},           {{2, 3, 2, 1}, {1, 7, 6, 3}},
      {{4, 1, 1, 0}, {2, 3, 3, 2}},           {{2, 1, 2, 0}, {1, 5, 5, 3}},
      {{2, 5, 1, 2}, {1, 3, 4, 1}},           {{1, 2, 2, 0}, {3, 5, 5, 1}},
      {{3, 3, 3, 2}, {1, 8, 7, 2}},           {{2, 1, 1, 0}, {1, 1, 1, 1}},
      {{2, 3, 1, 0, false}, {1, 4, 4, 2}},    {{2, {1, 7}, 1, {0, 3}}, {1, 3, 5, 2}},
      {{2, {7, 1}, 1, {3, 0}}, {1, 5, 2, 2}}, {{3, {3, 2}, 2, {1, 0}}, {2, 6, 5, 1}}};
  for (const Case& c : cases) {
    SCOPED_TRACE(to_string(LayerSpec{c.spec}) + " of " + to_string(c.in));
    const Shape out = window_of(c.spec).output(c.in, c.spec.output_channels);
    const std::int64_t taps = c.in[3] * window_of(c.spec).taps();
    Values x = values(1, c.in.elements()), w = values(2, out[3] * taps), b = values(3, out[3]);
    const Values dy = values(4, out.elements());
    const auto forward = [&] {
      Values y = sized(out.elements());
      reference::convolution_forward(c.spec, c.in, x.data(), w.data(),
                                     c.spec.bias ? b.data() : nullptr, y.data());
      return y;
    };
    Values dx = sized(c.in.elements()), dw = sized(out[3] * taps), db = sized(out[3]);
    reference::convolution_input_gradient(c.spec, c.in, dy.data(), w.data(), dx.data());
    expect_gradient(x, dx, dy, forward);
    reference::convolution_weight_gradient(c.spec, c.in, x.data(), dy.data(), dw.data());
    expect_gradient(w, dw, dy, forward);
    if (!c.spec.bias) continue;
    reference::bias_gradient(out[0] * out[1] * out[2], out[3], dy.data(), db.data());
    expect_gradient(b, db, dy, forward);
  }
}

TEST(ReferenceGradient, Linear) {
  for (const reference::LinearSizes& s :
       {reference::LinearSizes{1, 1, 1}, {1, 5, 3}, {4, 3, 7}, {3, 8, 1}}) {
    Values x = values(1, s.batch * s.in), w = values(2, s.in * s.out), b = values(3, s.out);
    const Values dy = values(4, s.batch * s.out);
    const auto forward = [&] {
      Values y = sized(s.batch * s.out);
      reference::linear_forward(s, x.data(), w.data(), b.data(), y.data());
      return y;
    };
    Values dx = sized(s.batch * s.in), dw = sized(s.in * s.out), db = sized(s.out);
    reference::linear_input_gradient(s, dy.data(), w.data(), dx.data());
    expect_gradient(x, dx, dy, forward);
    reference::linear_weight_gradient(s, x.data(), dy.data(), dw.data());
    expect_gradient(w, dw, dy, forward);
    reference::bias_gradient(s.batch, s.out, dy.data(), db.data());
    expect_gradient(b, db, dy, forward);
  }
}

TEST(ReferenceGradient, BatchNorm) {
  constexpr double kEpsilon = 1e-3;
  for (const auto& [rows, channels] : {std::pair{2, 1}, {5, 3}, {18, 4}}) {
    Values x = values(1, rows * channels), scale = values(2, channels);
    Values shift = values(3, channels), mean = sized(channels), variance = sized(channels);
    const Values dy = values(4, rows * channels);
    const auto forward = [&, rows = rows, channels = channels] {
      Values y = sized(rows * channels);
      reference::batch_statistics(rows, channels, x.data(), mean.data(), variance.data());
      reference::batch_norm_forward(rows, channels, kEpsilon, x.data(), mean.data(),
                                    variance.data(), scale.data(), shift.data(), y.data());
      return y;
    };
    forward();
    Values dx = sized(rows * channels), dscale = sized(channels), dshift = sized(channels);
    reference::batch_norm_backward(rows, channels, kEpsilon, x.data(), mean.data(), variance.data(),
                                   scale.data(), dy.data(), dx.data(), dscale.data(),
                                   dshift.data());
    expect_gradient(x, dx, dy, forward);
    expect_gradient(scale, dscale, dy, forward);
    expect_gradient(shift, dshift, dy, forward);
  }
}

TEST(ReferenceGradient, Pooling) {
  struct Case {
    Window window;
    Shape in;
  };
  for (const Case& c :
       {Case{{2, 2, 0}, {2, 5, 4, 2}}, Case{{3, 2, 1}, {1, 7, 6, 3}}, Case{{3, 1, 1}, {1, 4, 4, 2}},
        Case{{1, 1, 0}, {1, 1, 1, 1}}, Case{{{1, 3}, 1, {0, 1}}, {1, 3, 4, 2}},
        Case{{{3, 2}, 2, {1, 0}}, {2, 5, 4, 1}}}) {
    const std::int64_t outputs = c.window.output(c.in, c.in[3]).elements();
    Values x = values(1, c.in.elements());
    const Values dy = values(2, outputs);
    std::vector<std::uint8_t> winner(static_cast<std::size_t>(outputs));
    const auto max_forward = [&] {
      Values y = sized(outputs);
      reference::max_pool_forward(c.window, c.in, x.data(), y.data(), winner.data());
      return y;
    };
    Values dx = sized(c.in.elements());
    max_forward();
    reference::max_pool_backward(c.window, c.in, dy.data(), winner.data(), dx.data());
    expect_gradient(x, dx, dy, max_forward);
    for (const bool count_padding : {true, false}) {
      dx = sized(c.in.elements());
      reference::average_pool_backward(c.window, c.in, count_padding, dy.data(), dx.data());
      expect_gradient(x, dx, dy, [&] {
        Values y = sized(outputs);
        reference::average_pool_forward(c.window, c.in, count_padding, x.data(), y.data());
        return y;
      });
    }
    dx = sized(c.in.elements());
    const Values means = values(3, c.in[0] * c.in[3]);
    reference::global_average_pool_backward(c.in, means.data(), dx.data());
    expect_gradient(x, dx, means, [&] {
      Values y = sized(c.in[0] * c.in[3]);
      reference::global_average_pool_forward(c.in, x.data(), y.data());
      return y;
    });
  }
}

TEST(ReferenceGradient, Elementwise) {
  test::for_each_elementwise([]<class Layer>(const Layer& layer) {
    SCOPED_TRACE(row_of<Layer>().name);
    constexpr std::int64_t kCount = 120;
    Values x = values(1, kCount);
    const Values dy = values(2, kCount);
    const auto forward = [&] {
      Values y = sized(kCount);
      reference::elementwise_forward(layer, kCount, x.data(), y.data());
      return y;
    };
    const bool input = row_of<Layer>().backward_reads == BackwardReads::input;
    const Values read = input ? x : forward();
    Values dx = sized(kCount);
    reference::elementwise_backward(layer, kCount, read.data(), dy.data(), dx.data());
    expect_gradient(x, dx, dy, forward);
  });
}

TEST(ReferenceGradient, Flatten) {
  const Shape in = {2, 3, 4, 5};
  const std::int64_t count = in.elements();
  Values x = values(1, count);
  const Values dy = values(2, count);
  Values dx = sized(count), y = sized(count);
  reference::flatten_backward(in, dy.data(), dx.data());
  expect_gradient(x, dx, dy, [&] {
    reference::flatten_forward(in, x.data(), y.data());
    return y;
  });
}

TEST(ReferenceGradient, Dropout) {
  constexpr std::int64_t kCount = 120;
  Values x = values(1, kCount);
  const Values dy = values(2, kCount);
  Values dx = sized(kCount), y = sized(kCount);
  const std::vector<SampleKey> samples = {{0, 4}, {0, 9}};
  std::vector<std::uint8_t> kept(static_cast<std::size_t>(kCount));
  reference::dropout_draw(5, samples, kCount / 2, 0.4f, kept.data());
  reference::dropout_apply(kCount, kept.data(), 1 / 0.6, dy.data(), dx.data());
  expect_gradient(x, dx, dy, [&] {
    reference::dropout_apply(kCount, kept.data(), 1 / 0.6, x.data(), y.data());
    return y;
  });
  const AlphaDropoutMap map(0.4);
  reference::dropout_apply(kCount, kept.data(), map.scale, dy.data(), dx.data());
  expect_gradient(x, dx, dy, [&] {
    reference::alpha_dropout_forward(kCount, kept.data(), map, x.data(), y.data());
    return y;
  });
}

TEST(ReferenceGradient, Moving) {
  const Shape in = {2, 3, 4, 2};
  Values x = values(1, in.elements());
  const Values dy = values(2, in.elements());
  for (const auto& [rows, columns] : {std::pair{1, 1}, {0, 2}, {3, 0}, {0, 0}}) {
    Values dx = sized(in.elements());
    reference::shift(in, -rows, -columns, dy.data(), dx.data());
    expect_gradient(x, dx, dy, [&, r = rows, c = columns] {
      Values y = sized(in.elements());
      reference::shift(in, r, c, x.data(), y.data());
      return y;
    });
  }
  constexpr std::int64_t kRows = 6;
  Values a = values(3, kRows * 2), b = values(4, kRows * 3);
  const Values dboth = values(5, kRows * 5);
  const auto concat = [&] {
    Values y = sized(kRows * 5);
    reference::concat_forward(kRows, 2, 0, 5, a.data(), y.data());
    reference::concat_forward(kRows, 3, 2, 5, b.data(), y.data());
    return y;
  };
  Values da = sized(kRows * 2), db = sized(kRows * 3);
  reference::concat_backward(kRows, 2, 0, 5, dboth.data(), da.data());
  reference::concat_backward(kRows, 3, 2, 5, dboth.data(), db.data());
  expect_gradient(a, da, dboth, concat);
  expect_gradient(b, db, dboth, concat);
}

// The gradient is that of the sum of losses over the mean's denominator, which is larger than this
// batch when the batch is one micro-batch of several.
TEST(ReferenceGradient, SoftmaxCrossEntropy) {
  for (const auto& [batch, classes] : {std::pair{1, 2}, {3, 5}, {2, 11}}) {
    Values x = values(1, batch * classes);
    std::vector<std::int32_t> labels;
    for (int n = 0; n < batch; ++n) labels.push_back((3 * n + 1) % classes);
    Values loss = sized(batch), probabilities = sized(batch * classes);
    const reference::LossSizes sizes{batch, 1, classes};
    reference::softmax_cross_entropy_forward(sizes, 0, x.data(), labels.data(), loss.data(),
                                             probabilities.data(), nullptr);
    Values dx = sized(batch * classes);
    reference::softmax_cross_entropy_backward(sizes, 0, probabilities.data(), labels.data(), 12, 0,
                                              batch, dx.data());
    const Values dy(static_cast<std::size_t>(batch), 1.0 / 12);
    expect_gradient(x, dx, dy, [&] {
      reference::softmax_cross_entropy_forward<double>(sizes, 0, x.data(), labels.data(),
                                                       loss.data(), nullptr, nullptr);
      return loss;
    });
  }
}

}  // namespace reference_gradient_test
}  // namespace hetpipe
