// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/devices.h"
#include "tests/unit/kernels/layer_cases.h"
#include "tests/unit/kernels/layer_run.h"

namespace hetpipe {
namespace cpu_against_reference_test {

using test::LayerCase;
using test::LayerResult;

// The reference sums in double; a float sum of K terms of size one wanders from it by about
// sqrt(K)*2^-24. No sum here has more than 2^12 terms, so 64*2^-24 of the largest value is one
// deviation, and 4 of them are allowed: any wrong index, weight or divisor is off by orders of
// magnitude more.
constexpr double kTolerance = 4 * 64 * 0x1p-24;

void expect_close(const std::vector<float>& got, const std::vector<float>& wanted,
                  const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 0;
  for (float x : wanted) largest = std::max(largest, std::abs(static_cast<double>(x)));
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_TRUE(std::isfinite(got[i])) << what << " element " << i;
    ASSERT_NEAR(got[i], wanted[i], kTolerance * largest + 1e-7) << what << " element " << i;
  }
}

template <class Compare>
void compare_all(const LayerResult& got, const LayerResult& wanted, const Compare& compare) {
  compare(got.output, wanted.output, "output");
  compare(got.evaluated, wanted.evaluated, "output in evaluation");
  ASSERT_EQ(got.input_gradients.size(), wanted.input_gradients.size());
  for (std::size_t i = 0; i < wanted.input_gradients.size(); ++i) {
    compare(got.input_gradients[i], wanted.input_gradients[i], "input gradient");
  }
  ASSERT_EQ(got.parameter_gradients.size(), wanted.parameter_gradients.size());
  for (std::size_t i = 0; i < wanted.parameter_gradients.size(); ++i) {
    compare(got.parameter_gradients[i], wanted.parameter_gradients[i],
            "parameter gradient " + std::to_string(i));
  }
  ASSERT_EQ(got.statistics.size(), wanted.statistics.size());
  for (std::size_t i = 0; i < wanted.statistics.size(); ++i) {
    compare(got.statistics[i], wanted.statistics[i], "statistics " + std::to_string(i));
  }
  EXPECT_EQ(got.correct, wanted.correct);
}

class CpuAgainstReference : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Device> cpu_ = make_device("cpu", GetParam());
  std::unique_ptr<Device> reference_ = make_device("reference", 1);
};

TEST_P(CpuAgainstReference, SumsAgreeWithinRounding) {
  for (const LayerCase& c : test::summing_cases()) {
    SCOPED_TRACE(to_string(c));
    const test::LayerValues values = make_values(c);
    compare_all(run_layer(*cpu_, c, values), run_layer(*reference_, c, values), expect_close);
    ASSERT_FALSE(HasFatalFailure());
  }
}

TEST_P(CpuAgainstReference, OwnLoopsAgreeInEveryBit) {
  for (const LayerCase& c : test::exact_cases()) {
    SCOPED_TRACE(to_string(c));
    const test::LayerValues values = make_values(c);
    compare_all(run_layer(*cpu_, c, values), run_layer(*reference_, c, values),
                [](const auto& got, const auto& wanted, const std::string& what) {
                  ASSERT_EQ(got, wanted) << what;
                });
    ASSERT_FALSE(HasFatalFailure());
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuAgainstReference, testing::Values(1, 2));

}  // namespace cpu_against_reference_test
}  // namespace hetpipe
