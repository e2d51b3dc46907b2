// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/file.h"
#include "base/text.h"
#include "kernels/cuda/dnn/attention_graphs.h"
#include "kernels/cuda/dnn/convolution.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/convolution.h"
#include "tests/cuda/graph_on_host.h"

// Whether the graphs that cuDNN is given say what their layers mean.
namespace hetpipe::cuda {
namespace graph_meaning_test {

using Numbers = std::vector<double>;

Numbers numbers(std::int64_t count, std::uint32_t seed) {
  Numbers values(static_cast<std::size_t>(count));
  for (double& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = static_cast<double>(seed >> 8) / (1 << 23) - 1;
  }
  return values;
}

void expect_near(const Numbers& found, const Numbers& expected, double allowed,
                 const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], allowed) << what << "[" << i << "]";
}

class AttentionGraphs : public testing::TestWithParam<std::tuple<bool, bool>> {};

TEST_P(AttentionGraphs, AreTheDefinition) {
  const auto [causal, deterministic] = GetParam();
  for (const std::int64_t tokens : {1, 5}) {
    const std::int64_t batch = 2, heads = 3, features = heads * 4;
    const AttentionSizes sizes{batch, tokens, features, heads, causal, CUDNN_DATA_BFLOAT16};
    const reference::AttentionSizes meant{batch, tokens, features, heads, causal};
    Numbers x = numbers(batch * tokens * 3 * features, 1),
            dy = numbers(batch * tokens * features, 2);
    Numbers softmax(static_cast<std::size_t>(batch * heads * tokens * tokens));
    Numbers expected_y(dy.size()), expected_dx(x.size());
    reference::attention_forward(meant, x.data(), softmax.data(), true, expected_y.data());
    reference::attention_backward(meant, x.data(), softmax.data(), dy.data(), expected_dx.data());

    Numbers y(dy.size(), NAN), dx(x.size(), NAN), dq_sums(dy.size(), NAN);
    Numbers statistics(static_cast<std::size_t>(batch * heads * tokens), NAN), sums = statistics;
    compute_on_host(*attention_forward_graph(sizes),
                    {&x[0], &x[static_cast<std::size_t>(features)],
                     &x[static_cast<std::size_t>(2 * features)], y.data(), statistics.data()});
    expect_near(y, expected_y, 1e-12, "y");
    std::vector<double*> memories = {&x[0],
                                     &x[static_cast<std::size_t>(features)],
                                     &x[static_cast<std::size_t>(2 * features)],
                                     y.data(),
                                     statistics.data(),
                                     dy.data(),
                                     &dx[0],
                                     &dx[static_cast<std::size_t>(features)],
                                     &dx[static_cast<std::size_t>(2 * features)],
                                     sums.data()};
    if (!deterministic) memories.push_back(dq_sums.data());
    compute_on_host(*attention_backward_graph(sizes, deterministic), memories);
    expect_near(dx, expected_dx, 1e-12, "dx");
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, AttentionGraphs,
                         testing::Combine(testing::Bool(), testing::Bool()));

// (O, I, KH, KW) to (O, KH, KW, I).
Numbers channels_last(const Numbers& weight, std::int64_t o, std::int64_t i, std::int64_t taps) {
  Numbers result(weight.size());
  for (std::int64_t a = 0; a < o; ++a)
    for (std::int64_t b = 0; b < i; ++b)
      for (std::int64_t c = 0; c < taps; ++c)
        result[static_cast<std::size_t>((a * taps + c) * i + b)] =
            weight[static_cast<std::size_t>((a * i + b) * taps + c)];
  return result;
}

TEST(ConvolutionGraphs, AreTheDefinition) {
  const std::unique_ptr<Context> context = Context::described(read_file(HETPIPE_H200), {});
  const struct {
    Convolution spec;
    Shape in;
    Activation after;
  } cases[] = {
      {{.output_channels = 4, .kernel = 3, .padding = 1}, {2, 5, 6, 3}, Activation::none},
      {{.output_channels = 4, .kernel = 3, .padding = 1}, {2, 5, 6, 3}, Activation::relu},
      {{.output_channels = 2, .kernel = 1, .stride = 2, .bias = false},
       {2, 5, 7, 4},
       Activation::none},
      {{.output_channels = 3, .kernel = {1, 3}, .stride = 2, .padding = {0, 1}, .bias = false},
       {1, 6, 7, 2},
       Activation::none},
      {{.output_channels = 3, .kernel = {3, 2}, .stride = 3, .padding = 2},
       {1, 8, 7, 2},
       Activation::none},
      {{.output_channels = 6, .padding = 1, .groups = 2}, {1, 5, 4, 4}, Activation::none},
      {{.output_channels = 3, .stride = {2, 1}, .padding = 1, .bias = false, .groups = 3},
       {1, 5, 4, 3},
       Activation::none},
      {{.output_channels = 2,
        .kernel = {2, 3},
        .padding = {0, 2},
        .dilation = {1, 2},
        .padding_end = Sides{1, 2}},
       {1, 5, 6, 3},
       Activation::none},
  };
  for (const auto& [spec, in, after] : cases) {
    const std::string what = to_string(spec) + " " + to_string(in);
    const Shape out = window_of(spec).output(in, spec.output_channels);
    const std::int64_t taps = window_of(spec).taps(), inputs = in[3] / spec.groups;
    Numbers x = numbers(in.elements(), 1), b = numbers(out[3], 3), dy = numbers(out.elements(), 4);
    const Numbers w = numbers(out[3] * inputs * taps, 2);
    Numbers y(dy.size()), dx(x.size()), dw(w.size());
    reference::convolution_forward(spec, in, x.data(), w.data(), spec.bias ? b.data() : nullptr,
                                   y.data());
    if (after == Activation::relu)
      for (double& value : y) value = std::max(value, 0.0);
    reference::convolution_input_gradient(spec, in, dy.data(), w.data(), dx.data());
    reference::convolution_weight_gradient(spec, in, x.data(), dy.data(), dw.data());

    ConvolutionPlans plans(*context, spec, in, Precision::tf32, after);
    Numbers weight = channels_last(w, out[3], inputs, taps), found(y.size(), NAN);
    std::vector<double*> memories = {x.data(), weight.data()};
    if (spec.bias) memories.push_back(b.data());
    memories.push_back(found.data());
    compute_on_host(plans.forward_plan()->graph(), memories);
    expect_near(found, y, 1e-12, what + " y");
    found.assign(dx.size(), NAN);
    compute_on_host(plans.input_gradient_plan()->graph(), {dy.data(), weight.data(), found.data()});
    expect_near(found, dx, 1e-12, what + " dx");
    found.assign(dw.size(), NAN);
    compute_on_host(plans.weight_gradient_plan()->graph(), {x.data(), dy.data(), found.data()});
    expect_near(found, channels_last(dw, out[3], inputs, taps), 1e-12, what + " dweight");
  }
}

}  // namespace graph_meaning_test
}  // namespace hetpipe::cuda
