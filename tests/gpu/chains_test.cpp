// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/gpu/cuda_test.h"
#include "tests/gpu/layer_compare.h"
#include "tests/unit/kernels/fusing_device.h"

// Chains of layers that the CUDA device computes in one go, against the definitions one by one.
namespace hetpipe {
namespace chains_test {

using test::LayerResult;
using test::LayerValues;
using test::RunOptions;
using Chain = std::vector<ChainedLayer>;

Chain norm(const Shape& in) { return {{BatchNorm{1e-3f, 0.3f}, {in}}}; }

Chain then(Chain chain, const LayerSpec& spec) {
  chain.push_back({spec, {infer_shapes(chain).output}});
  return chain;
}
Chain then_add(Chain chain, std::size_t from_before) {
  const Shape shape = infer_shapes(chain).output;
  chain.push_back({.spec = Add{}, .inputs = {shape, shape}, .from_before = from_before});
  return chain;
}

// Batch norms, sums and dropouts with what follows them.
std::vector<Chain> streaming_chains() {
  std::vector<Chain> chains;
  for (const Shape& in : {Shape{2, 5, 7, 3}, Shape{3, 8, 8, 16}, Shape{1, 9, 6, 17},
                          Shape{2, 4, 4, 64}, Shape{32, 100}, Shape{7, 9}}) {
    chains.push_back(then(norm(in), Relu{}));
    for (const std::size_t from_before : {0, 1}) {
      chains.push_back(then_add(norm(in), from_before));
      chains.push_back(then(chains.back(), Relu{}));
    }
    chains.push_back(then({{Add{}, {in, in}}}, Relu{}));
    const ChainedLayer dropout{.spec = Dropout{0.3f}, .inputs = {in}, .key = test::kLayerKey};
    for (const std::size_t from_before : {0, 1}) {
      chains.push_back(then_add({dropout}, from_before));
    }
    // Stochastic depth.
    const ChainedLayer whole{
        .spec = Dropout{.rate = 0.3f, .draws = 1}, .inputs = {in}, .key = test::kLayerKey};
    chains.push_back(then_add({whole}, 1));
  }
  return chains;
}

std::vector<Chain> convolving_chains() {
  std::vector<Chain> chains;
  for (const Shape& in : {Shape{2, 5, 7, 3}, Shape{1, 9, 6, 16}, Shape{2, 6, 6, 8}}) {
    for (const Convolution& c : {Convolution{16, 3, 1, 1}, Convolution{7, 3, 2, 1, false},
                                 Convolution{5, 1, 1, 0}, Convolution{8, {1, 3}, 1, {0, 1}}}) {
      chains.push_back(then({{c, {in}}}, Relu{}));
    }
  }
  return chains;
}

// Not in fp32, whose digits the library's GELU does not promise.
std::vector<Chain> multiplying_chains() {
  std::vector<Chain> chains;
  for (const Shape& in : {Shape{8, 24}, Shape{3, 5, 16}, Shape{7, 9}}) {
    chains.push_back(then({{Linear{16}, {in}}}, Gelu{}));
    chains.push_back(then({{Linear{.output_features = 40, .transposed = true}, {in}}}, Gelu{}));
  }
  return chains;
}

std::vector<Chain> all_chains(Precision precision) {
  std::vector<Chain> chains = streaming_chains();
  for (const Chain& chain : convolving_chains()) chains.push_back(chain);
  if (precision == Precision::fp32) return chains;
  for (const Chain& chain : multiplying_chains()) chains.push_back(chain);
  return chains;
}

LayerValues values_of(const Chain& chain, Precision precision) {
  LayerValues values = test::make_values(chain);
  for (auto& input : values.inputs) test::round_to(precision, input);
  for (auto& parameter : values.parameters) test::round_to(precision, parameter);
  test::round_to(precision, values.output_gradient);
  return values;
}

std::string shapes_of(const Chain& chain) {
  return to_string(chain) + " of " + to_string(chain[0].inputs[0]);
}

class CudaChains : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    device_ = test::cuda_device(GetParam());
    if (device_ == nullptr) GTEST_SKIP() << test::last_gpu().name << " has no such precision";
  }
  static test::Compare near(const Chain& chain) {
    return test::within(test::tolerance(chain[0].spec, GetParam()));
  }
  std::unique_ptr<Device> device_;
  test::FusingDevice reference_{test::every_chain};
};

TEST_P(CudaChains, AgreeWithTheDefinitionsOneByOne) {
  for (const Chain& chain : all_chains(GetParam())) {
    SCOPED_TRACE(shapes_of(chain));
    const LayerValues values = values_of(chain, GetParam());
    test::compare_all(run_chain(*device_, chain, values), run_chain(reference_, chain, values),
                      near(chain));
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(CudaChains, TensorsMayStartAnywhere) {
  for (const Chain& chain : all_chains(GetParam())) {
    const LayerValues values = values_of(chain, GetParam());
    const LayerResult wanted = run_chain(reference_, chain, values);
    for (const std::int64_t offset : {1, 4}) {
      SCOPED_TRACE(shapes_of(chain) + " at " + std::to_string(offset));
      test::compare_all(run_chain(*device_, chain, values, {.offset = offset}), wanted,
                        near(chain));
      ASSERT_FALSE(HasFailure());
    }
  }
}

TEST_P(CudaChains, ComeToTheSameBitsEveryTimeInTwoHalvesAndInPlace) {
  for (const Chain& chain : all_chains(GetParam())) {
    const LayerValues values = values_of(chain, GetParam());
    const LayerResult wanted = run_chain(*device_, chain, values);
    for (const RunOptions& options :
         {RunOptions{}, RunOptions{.split_backward = true}, RunOptions{.in_place = true}}) {
      SCOPED_TRACE(shapes_of(chain) + (options.split_backward ? ", two halves" : "") +
                   (options.in_place ? ", in place" : ""));
      test::compare_all(run_chain(*device_, chain, values, options), wanted, test::same_bits());
      ASSERT_FALSE(HasFailure());
    }
  }
}

// The news of a numerical failure. (Algorithms that transform tiles may spread it further.)
TEST_P(CudaChains, LetNaNsPass) {
  const auto expect_nans = [](const auto& got, const auto& wanted, const std::string& what) {
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      ASSERT_TRUE(std::isnan(got[i]) || !std::isnan(wanted[i])) << what << " element " << i;
    }
  };
  for (const Chain& chain : all_chains(GetParam())) {
    SCOPED_TRACE(shapes_of(chain));
    LayerValues values = values_of(chain, GetParam());
    values.inputs[0][1] = NAN;
    const LayerResult wanted = run_chain(reference_, chain, values);
    ASSERT_THAT(wanted.evaluated, testing::Contains(testing::IsNan()));
    test::compare_all(run_chain(*device_, chain, values), wanted, expect_nans);
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(CudaChains, OthersAreLeftOneByOne) {
  const Shape in{2, 4, 4, 8};
  for (const Chain& chain :
       {then(norm(in), BatchNorm{}), then(norm(in), GlobalAveragePool{}),
        then(then(norm(in), Relu{}), Relu{}), then(Chain{{Relu{}, {in}}}, Relu{}),
        then(then_add(norm(in), 0), Gelu{}), then(Chain{{MaxPool{}, {in}}}, Relu{}),
        then(Chain{{Linear{12}, {{4, 16}}}}, Gelu{}), then(Chain{{Linear{8}, {{4, 16}}}}, Relu{}),
        then(Chain{{Linear{8, false}, {{4, 16}}}}, Gelu{}),
        then_add(Chain{{AlphaDropout{}, {in}}}, 0)}) {
    EXPECT_EQ(device_->fuse(chain), nullptr) << shapes_of(chain);
  }
  if (GetParam() != Precision::fp32) return;
  for (const Chain& chain : multiplying_chains()) EXPECT_EQ(device_->fuse(chain), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Precisions, CudaChains,
                         testing::Values(Precision::fp32, Precision::tf32, Precision::bf16,
                                         Precision::fp16),
                         [](const auto& of) { return to_string(of.param); });

}  // namespace chains_test
}  // namespace hetpipe
