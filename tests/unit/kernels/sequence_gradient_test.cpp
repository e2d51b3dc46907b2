// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <vector>

#include "kernels/reference/attention.h"
#include "kernels/reference/convolution.h"
#include "kernels/reference/embedding.h"
#include "kernels/reference/layer_norm.h"
#include "kernels/reference/linear.h"
#include "kernels/reference/loss.h"
#include "kernels/reference/lstm.h"
#include "tests/unit/kernels/finite_differences.h"

// Gradients of the layers for sequences against central differences.
namespace hetpipe {
namespace sequence_gradient_test {

using test::expect_gradient;
using test::sized;
using test::Values;
using test::values;

TEST(SequenceGradient, TransposedLinear) {
  const reference::LinearSizes s{4, 3, 5, true};
  Values x = values(1, s.batch * s.in), w = values(2, s.in * s.out), b = values(3, s.out);
  const Values dy = values(4, s.batch * s.out);
  const auto forward = [&] {
    Values y = sized(s.batch * s.out);
    reference::linear_forward(s, x.data(), w.data(), b.data(), y.data());
    return y;
  };
  Values dx = sized(s.batch * s.in), dw = sized(s.in * s.out);
  reference::linear_input_gradient(s, dy.data(), w.data(), dx.data());
  expect_gradient(x, dx, dy, forward);
  reference::linear_weight_gradient(s, x.data(), dy.data(), dw.data());
  expect_gradient(w, dw, dy, forward);
}

// Tokens that come once, several times and never.
TEST(SequenceGradient, Embedding) {
  constexpr std::int64_t kVocabulary = 5, kFeatures = 3;
  const Values tokens = {4, 1, 1, 0, 4, 1};
  const auto rows = static_cast<std::int64_t>(tokens.size());
  Values w = values(1, kVocabulary * kFeatures);
  const Values dy = values(2, rows * kFeatures);
  const auto of = reference::rows_by_token(rows, kVocabulary, tokens.data());
  EXPECT_EQ(of.rows, (std::vector<std::int64_t>{3, 1, 2, 5, 0, 4}));
  Values dw = sized(kVocabulary * kFeatures);
  reference::embedding_weight_gradient(kFeatures, of, 0, kVocabulary, dy.data(), dw.data());
  expect_gradient(w, dw, dy, [&] {
    Values y = sized(rows * kFeatures);
    reference::embedding_forward(rows, kVocabulary, kFeatures, tokens.data(), w.data(), y.data());
    return y;
  });
}

TEST(SequenceGradient, PositionEmbedding) {
  constexpr std::int64_t kBatch = 3, kCount = 4, kWeights = 6;  // two places that no sample has
  const Values x = values(1, kBatch * kCount), dy = values(2, kBatch * kCount);
  Values w = values(3, kWeights), dw = sized(kWeights);
  reference::position_weight_gradient(kBatch, kCount, 0, kWeights, dy.data(), dw.data());
  expect_gradient(w, dw, dy, [&] {
    Values y = sized(kBatch * kCount);
    reference::position_forward(kBatch, kCount, x.data(), w.data(), y.data());
    return y;
  });
}

TEST(SequenceGradient, LayerNorm) {
  constexpr double kEpsilon = 1e-3;
  for (const auto& [rows, features] : {std::pair{1, 2}, {4, 5}, {3, 40}}) {
    Values x = values(1, rows * features), scale = values(2, features), shift = values(3, features);
    const Values dy = values(4, rows * features);
    Values mean = sized(rows), variance = sized(rows);
    const auto forward = [&, rows = rows, features = features] {
      Values y = sized(rows * features);
      for (int r = 0; r < rows; ++r) {
        const auto row = static_cast<std::size_t>(r);
        reference::layer_norm_row<double>(features, kEpsilon, x.data() + r * features, scale.data(),
                                          shift.data(), y.data() + r * features, mean[row],
                                          variance[row]);
      }
      return y;
    };
    forward();
    Values dx = sized(rows * features), dscale = sized(features), dshift = sized(features);
    for (int r = 0; r < rows; ++r) {
      const auto row = static_cast<std::size_t>(r);
      reference::layer_norm_row_gradient(features, kEpsilon, x.data() + r * features, mean[row],
                                         variance[row], scale.data(), dy.data() + r * features,
                                         dx.data() + r * features);
    }
    reference::layer_norm_parameter_gradients(rows, features, kEpsilon, 0, features, x.data(),
                                              mean.data(), variance.data(), dy.data(),
                                              dscale.data(), dshift.data());
    expect_gradient(x, dx, dy, forward);
    expect_gradient(scale, dscale, dy, forward);
    expect_gradient(shift, dshift, dy, forward);
  }
}

TEST(SequenceGradient, SelfAttention) {
  for (const reference::AttentionSizes& s :
       {reference::AttentionSizes{1, 1, 2, 1, true}, {2, 4, 6, 2, true}, {2, 4, 6, 3, false}}) {
    const std::int64_t rows = s.batch * s.tokens;
    Values x = values(1, 3 * rows * s.features);
    const Values dy = values(2, rows * s.features);
    Values softmax = sized(s.batch * s.heads * s.tokens * s.tokens);
    const auto forward = [&] {
      Values y = sized(rows * s.features);
      reference::attention_forward(s, x.data(), softmax.data(), true, y.data());
      return y;
    };
    forward();
    Values dx = sized(3 * rows * s.features);
    reference::attention_backward(s, x.data(), softmax.data(), dy.data(), dx.data());
    expect_gradient(x, dx, dy, forward);
  }
}

TEST(SequenceGradient, Lstm) {
  for (const reference::LstmSizes& s :
       {reference::LstmSizes{1, 1, 1, 1}, {2, 4, 3, 2}, {3, 3, 2, 4}}) {
    Values x = values(1, s.rows() * s.in), wx = values(2, s.in * s.gates());
    Values wh = values(3, s.hidden * s.gates()), b = values(4, s.gates());
    const Values dy = values(5, s.rows() * s.hidden);
    Values gates = sized(s.rows() * s.gates()), cells = sized(s.rows() * s.hidden);
    const auto forward = [&] {
      Values y = sized(s.rows() * s.hidden);
      reference::lstm_forward(s, x.data(), wx.data(), wh.data(), b.data(), gates.data(),
                              cells.data(), y.data());
      return y;
    };
    const Values y = forward();
    Values dgates = sized(s.rows() * s.gates());
    reference::lstm_gate_gradients(s, wh.data(), gates.data(), cells.data(), dy.data(),
                                   dgates.data());
    const reference::LinearSizes input{s.rows(), s.in, s.gates()};
    Values dx = sized(s.rows() * s.in), dwx = sized(s.in * s.gates());
    Values dwh = sized(s.hidden * s.gates()), db = sized(s.gates());
    reference::linear_input_gradient(input, dgates.data(), wx.data(), dx.data());
    reference::linear_weight_gradient(input, x.data(), dgates.data(), dwx.data());
    reference::lstm_hidden_weight_gradient(s, y.data(), dgates.data(), dwh.data());
    reference::bias_gradient(s.rows(), s.gates(), dgates.data(), db.data());
    expect_gradient(x, dx, dy, forward);
    expect_gradient(wx, dwx, dy, forward);
    expect_gradient(wh, dwh, dy, forward);
    expect_gradient(b, db, dy, forward);
  }
}

TEST(SequenceGradient, CrossEntropyOverTokensAndSmoothing) {
  for (const double smoothing : {0.0, 0.1, 0.7}) {
    for (const reference::LossSizes& s : {reference::LossSizes{3, 1, 4}, {2, 5, 3}, {1, 2, 7}}) {
      Values x = values(1, s.batch * s.tokens * s.classes);
      std::vector<std::int32_t> labels;
      for (int r = 0; r < s.batch * s.tokens; ++r) {
        labels.push_back(static_cast<std::int32_t>((3 * r + 1) % s.classes));
      }
      Values loss = sized(s.batch), probabilities = sized(s.batch * s.tokens * s.classes);
      const auto forward = [&] {
        reference::softmax_cross_entropy_forward(s, smoothing, x.data(), labels.data(), loss.data(),
                                                 probabilities.data(), nullptr);
        return loss;
      };
      forward();
      Values dx = sized(s.batch * s.tokens * s.classes);
      const Values kept = probabilities;
      reference::softmax_cross_entropy_backward(s, smoothing, kept.data(), labels.data(), 12, 0,
                                                s.batch * s.tokens, dx.data());
      expect_gradient(x, dx, Values(static_cast<std::size_t>(s.batch), 1.0 / 12), forward);
    }
  }
}

TEST(SequenceGradient, CrossEntropyOfMixedLabels) {
  const reference::LossSizes s{.batch = 4, .classes = 5, .mixed = true};
  std::vector<std::int32_t> labels{1, 4, 0, 2, 3, 4, 2, 0};
  for (const float share : {0.75f, 0.3f, 1.0f, 0.0f}) {
    labels.push_back(std::bit_cast<std::int32_t>(share));
  }
  for (const double smoothing : {0.0, 0.2}) {
    Values x = values(1, 20), loss = sized(4), probabilities = sized(20), dx = sized(20);
    std::vector<std::int32_t> correct(4);
    const auto forward = [&] {
      reference::softmax_cross_entropy_forward(s, smoothing, x.data(), labels.data(), loss.data(),
                                               probabilities.data(), correct.data());
      return loss;
    };
    const Values mixed = forward();
    const Values kept = probabilities;
    reference::softmax_cross_entropy_backward(s, smoothing, kept.data(), labels.data(), 12, 0, 4,
                                              dx.data());
    expect_gradient(x, dx, Values(4, 1.0 / 12), forward);
    // All of a sample, or nothing of it, is its own.
    const reference::LossSizes plain{.batch = 4, .classes = 5};
    Values of_first = sized(4), of_second = sized(4);
    std::vector<std::int32_t> hits(4);
    reference::softmax_cross_entropy_forward<double>(plain, smoothing, x.data(), labels.data(),
                                                     of_first.data(), nullptr, hits.data());
    reference::softmax_cross_entropy_forward<double>(plain, smoothing, x.data(), labels.data() + 4,
                                                     of_second.data(), nullptr, nullptr);
    EXPECT_EQ(mixed[2], of_first[2]);
    EXPECT_EQ(mixed[3], of_second[3]);
    EXPECT_EQ(correct, hits);
  }
}

}  // namespace sequence_gradient_test
}  // namespace hetpipe
