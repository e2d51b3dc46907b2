// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/devices.h"
#include "tests/unit/kernels/layer_run.h"

// Layers whose rules are subtle, against numbers of PyTorch.
namespace hetpipe {
namespace pytorch_values_test {

using test::LayerCase;
using Floats = std::vector<float>;

struct PyTorchCase {
  LayerSpec spec;
  Shape in;
  Floats output, input_gradient;
  std::vector<Floats> parameter_gradients;
};
#include "tests/unit/kernels/pytorch_values.h"

// As pytorch_values.py makes them.
Floats numbers(std::int64_t seed, std::int64_t count) {
  Floats values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>((i * 37 + seed * 11) % 23 - 11) / 8);
  }
  return values;
}

void expect_near(const Floats& got, const Floats& wanted, const std::string& what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  float largest = 1;
  for (const float x : wanted) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], wanted[i], 4e-6f * largest) << what << " element " << i;
  }
}

class PyTorchValues : public testing::TestWithParam<const char*> {};

TEST_P(PyTorchValues, AreComputed) {
  const auto device = make_device(GetParam(), 1);
  for (const PyTorchCase& wanted : kPyTorchCases) {
    const LayerCase c{wanted.spec, {wanted.in}};
    SCOPED_TRACE(to_string(c));
    test::LayerValues v = make_values(c);
    v.inputs = {numbers(1, wanted.in.elements())};
    for (std::size_t k = 0; k < v.parameters.size(); ++k) {
      v.parameters[k] = numbers(static_cast<std::int64_t>(2 + k),
                                static_cast<std::int64_t>(v.parameters[k].size()));
    }
    v.output_gradient = numbers(9, static_cast<std::int64_t>(wanted.output.size()));
    const test::LayerResult r = run_layer(*device, c, v);
    expect_near(r.output, wanted.output, "output");
    expect_near(r.input_gradients[0], wanted.input_gradient, "input gradient");
    ASSERT_EQ(r.parameter_gradients.size(), wanted.parameter_gradients.size());
    for (std::size_t k = 0; k < v.parameters.size(); ++k) {
      expect_near(r.parameter_gradients[k], wanted.parameter_gradients[k],
                  "gradient of parameter " + std::to_string(k));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, PyTorchValues, testing::Values("reference", "cpu"));

}  // namespace pytorch_values_test
}  // namespace hetpipe
