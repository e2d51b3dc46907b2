// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "tests/gpu/cuda_test.h"
#include "tests/gpu/layer_compare.h"
#include "tests/unit/kernels/layer_cases.h"

// Every layer on the CUDA device against the definition, in every precision.
namespace hetpipe {
namespace layers_test {

using test::compare_all;
using test::LayerCase;
using test::LayerResult;
using test::LayerValues;
using test::RunOptions;
using test::same_bits;
using test::tolerance;
using test::within;

LayerValues values_of(const LayerCase& c, Precision precision) {
  LayerValues values = make_values(c);
  if (!std::holds_alternative<Embedding>(c.spec)) {
    for (auto& input : values.inputs) test::round_to(precision, input);
  }
  // With weights of deviation 1 a recurrence magnifies roundings from step to step: as they are
  // usual, by the square root of the numbers they weigh.
  if (std::holds_alternative<Recurrent>(c.spec)) {
    const auto columns = [](std::int64_t n) { return 1 / std::sqrt(static_cast<float>(n)); };
    for (float& w : values.parameters[0]) w *= columns(c.inputs[0][2]);
    for (float& w : values.parameters[1]) w *= columns(std::get<Recurrent>(c.spec).hidden);
  }
  for (auto& parameter : values.parameters) test::round_to(precision, parameter);
  test::round_to(precision, values.output_gradient);
  return values;
}

// Attention of operands that is the zoo's, which fused engines take too.
LayerCase packed_attention(std::int64_t samples, int heads, std::int64_t tokens,
                           std::int64_t features, bool causal) {
  const std::int64_t width = heads * features;
  const auto part = [&](std::int64_t offset) {
    return Operand{Source::input, 0, offset, {features, 3 * width, 1}};
  };
  Attention a{.heads = heads,
              .kv_heads = heads,
              .queries = tokens,
              .keys = tokens,
              .features = features,
              .value_features = features,
              .query = part(0),
              .key = part(width),
              .value = part(2 * width)};
  a.causal = causal;
  a.scale = 1 / std::sqrt(static_cast<float>(features));
  return {a, {{samples, tokens, 3 * width}}};
}

std::vector<LayerCase> all_cases() {
  std::vector<LayerCase> cases = test::summing_cases();
  const std::vector<LayerCase> more = test::exact_cases();
  cases.insert(cases.end(), more.begin(), more.end());
  // Heads of 8 and more columns, which fused engines take.
  for (const Shape& in : {Shape{2, 9, 3 * 32}, Shape{1, 33, 3 * 64}}) {
    cases.push_back({SelfAttention{2, true}, {in}});
    cases.push_back({SelfAttention{4, false}, {in}});
  }
  cases.push_back(packed_attention(2, 2, 9, 16, true));
  cases.push_back(packed_attention(1, 4, 33, 8, false));
  return cases;
}

// Of each layer type some.
std::vector<LayerCase> some_cases() {
  std::vector<LayerCase> some;
  std::map<std::size_t, int> seen;
  for (const LayerCase& c : all_cases()) {
    if (seen[c.spec.index()]++ % 7 == 3 || seen[c.spec.index()] == 2) some.push_back(c);
  }
  some.push_back({SelfAttention{2, true}, {{2, 9, 3 * 32}}});
  some.push_back(packed_attention(2, 2, 9, 16, true));
  some.push_back({Linear{16}, {{8, 24}}});
  some.push_back({Linear{.output_features = 24, .transposed = true}, {{8, 24}}});
  some.push_back({Convolution{8, 3, 1, 1}, {{2, 6, 6, 8}}});
  return some;
}

class LayersOnCards : public testing::Test {
 protected:
  void set_up(Precision precision) {
    precision_ = precision;
    device_ = test::cuda_device(precision);
    if (device_ == nullptr) GTEST_SKIP() << test::last_gpu().name << " has no such precision";
  }
  void agree(const LayerCase& c) {
    SCOPED_TRACE(to_string(c));
    const LayerValues values = values_of(c, precision_);
    compare_all(run_layer(*device_, c, values), run_layer(*reference_, c, values),
                within(tolerance(c.spec, precision_)));
  }

  Precision precision_{};
  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = make_device("reference", 1);
};

class CudaLayers : public LayersOnCards, public testing::WithParamInterface<Precision> {
 protected:
  void SetUp() override { set_up(GetParam()); }
};

// What takes many layers, in parts, which may run at once.
constexpr std::size_t kParts = 4;
class CudaLayersInParts : public LayersOnCards,
                          public testing::WithParamInterface<std::tuple<Precision, std::size_t>> {
 protected:
  void SetUp() override { set_up(std::get<0>(GetParam())); }
  std::vector<LayerCase> part_of(const std::vector<LayerCase>& cases) const {
    std::vector<LayerCase> part;
    for (std::size_t i = std::get<1>(GetParam()); i < cases.size(); i += kParts) {
      part.push_back(cases[i]);
    }
    return part;
  }
};

TEST_P(CudaLayersInParts, AgreeWithTheDefinition) {
  for (const LayerCase& c : part_of(all_cases())) {
    agree(c);
    ASSERT_FALSE(HasFailure());
  }
}

// Many outputs, an odd number: padded, but in fp32.
TEST_P(CudaLayers, PaddedLinearAgrees) {
  if (GetParam() == Precision::fp32) GTEST_SKIP() << "fp32 takes products of any rows";
  for (const bool transposed : {false, true}) {
    const LayerCase c{
        Linear{.output_features = 1027, .bias = !transposed, .transposed = transposed},
        {{1024, 8}}};
    agree(c);
    ASSERT_FALSE(HasFailure());
  }
}

// With little workspace (HETPIPE_TEST_WORKSPACE) sample by sample; of odd numbers of samples too.
TEST_P(CudaLayers, AttentionsAgree) {
  for (const std::int64_t samples : {1, 2, 3, 5}) {
    for (const bool causal : {false, true}) {
      for (const LayerCase& c : {LayerCase{SelfAttention{2, causal}, {{samples, 9, 3 * 32}}},
                                 LayerCase{SelfAttention{1, causal}, {{samples, 7, 3 * 8}}},
                                 packed_attention(samples, 2, 9, 16, causal)}) {
        agree(c);
        ASSERT_FALSE(HasFailure());
      }
    }
  }
}

TEST_P(CudaLayersInParts, TensorsMayStartAnywhere) {
  for (const LayerCase& c : part_of(some_cases())) {
    const LayerValues values = values_of(c, precision_);
    const LayerResult wanted = run_layer(*reference_, c, values);
    for (const std::int64_t offset : {1, 2, 4}) {
      SCOPED_TRACE(to_string(c) + " at " + std::to_string(offset));
      compare_all(run_layer(*device_, c, values, {.offset = offset}), wanted,
                  within(tolerance(c.spec, precision_)));
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(CudaLayersInParts, ComeToTheSameBitsEveryTimeInTwoHalvesAndInPlace) {
  for (const LayerCase& c : part_of(some_cases())) {
    const LayerValues values = values_of(c, precision_);
    const LayerResult wanted = run_layer(*device_, c, values);
    for (const RunOptions& options :
         {RunOptions{}, RunOptions{.split_backward = true}, RunOptions{.in_place = true},
          RunOptions{.split_backward = true, .in_place = true}}) {
      // Without its gradient, which is overwritten, no second half.
      if (options.split_backward && options.in_place && !values.parameters.empty()) continue;
      SCOPED_TRACE(to_string(c) + (options.split_backward ? ", two halves" : "") +
                   (options.in_place ? ", in place" : ""));
      compare_all(run_layer(*device_, c, values, options), wanted, same_bits());
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(CudaLayers, TokensAndLabelsOutsideEndAsNaN) {
  const LayerCase embedding{Embedding{5, 9}, {{2, 3}}};
  const LayerCase loss{SoftmaxCrossEntropy{}, {{3, 7}}};
  for (const float outside : {-1.0f, 5.0f, 1e20f}) {
    LayerValues values = make_values(embedding);
    values.inputs[0][4] = outside;
    const LayerResult r = run_layer(*device_, embedding, values);
    for (std::size_t i = 0; i < r.output.size(); ++i) {
      EXPECT_EQ(std::isnan(r.output[i]), i / 9 == 4) << i;
    }
  }
  for (const std::int32_t outside : {-1, 7, 1 << 30}) {
    LayerValues values = make_values(loss);
    values.labels[1] = outside;
    const LayerResult r = run_layer(*device_, loss, values);
    for (std::size_t i = 0; i < r.output.size(); ++i) EXPECT_EQ(std::isnan(r.output[i]), i == 1);
  }
}

const auto kPrecisions =
    testing::Values(Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16);
INSTANTIATE_TEST_SUITE_P(Precisions, CudaLayers, kPrecisions,
                         [](const auto& of) { return to_string(of.param); });
INSTANTIATE_TEST_SUITE_P(Precisions, CudaLayersInParts,
                         testing::Combine(kPrecisions, testing::Range<std::size_t>(0, kParts)),
                         [](const auto& of) {
                           return to_string(std::get<0>(of.param)) + "_" +
                                  std::to_string(std::get<1>(of.param));
                         });

}  // namespace layers_test
}  // namespace hetpipe
