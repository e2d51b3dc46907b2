// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/own/pointwise.h"

#include "kernels/cuda/own/pointwise_plan.h"
#include "kernels/devices.h"
#include "kernels/pointwise_layer.h"
#include "tests/unit/kernels/algebra_cases.h"
#include "tests/unit/kernels/cuda/own_test.h"

namespace hetpipe::cuda {
namespace pointwise_test {

using namespace test;
using hetpipe::test::LayerCase;
using hetpipe::test::LayerResult;
using hetpipe::test::LayerValues;

template <class T>
class PointwiseKernels : public testing::Test {};
TYPED_TEST_SUITE(PointwiseKernels, Elements);

// Relative to the largest value: one rounding to T, and what fp32 sums lose.
template <class T>
void expect_near(const std::vector<T>& got, const std::vector<float>& wanted, const char* what) {
  ASSERT_EQ(got.size(), wanted.size()) << what;
  double largest = 1e-3;
  for (const float w : wanted) largest = std::max(largest, std::abs(static_cast<double>(w)));
  const double tolerance = (std::is_same_v<T, float> ? 2e-6 : last_place<T>(1)) * largest;
  for (std::size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(static_cast<float>(got[i])), static_cast<double>(wanted[i]),
                tolerance)
        << what << " element " << i;
  }
}

// A case as the kernels are given it; memory of the host.
template <class T>
void run(const LayerCase& c) {
  SCOPED_TRACE(to_string(c));
  const Pointwise layer = merged(std::get<Pointwise>(c.spec));
  LayerValues values = make_values(c);
  for (auto& in : values.inputs) in = widened(rounded<T>(in));
  values.output_gradient = widened(rounded<T>(values.output_gradient));
  const auto reference = make_device("reference", 1);
  const LayerResult wanted = run_layer(*reference, c, values);

  const std::int64_t samples = c.inputs[0][0];
  std::vector<std::int64_t> elements;
  for (const Shape& in : c.inputs) elements.push_back(in.elements() / samples);
  const PointwiseViews views(layer, elements);
  std::vector<std::vector<T>> inputs;
  for (const auto& in : values.inputs) inputs.push_back(rounded<T>(in));
  PointwiseData data;
  for (std::size_t o = 0; o < layer.operands.size(); ++o) {
    const Operand& operand = layer.operands[o];
    const auto i = static_cast<std::size_t>(operand.index);
    data.tables[o] = operand.table.data();
    if (operand.source == Source::input) {
      data.operands[o] = inputs[i].data();
    } else {
      data.operands[o] = operand.source == Source::parameter ? values.parameters[i].data()
                                                             : layer.constants[i].data();
    }
  }

  const std::vector<PointwiseStep> steps = pointwise_steps(layer.expression);
  Array<T> y(static_cast<std::int64_t>(wanted.output.size()));
  pointwise_forward(views.program(steps.data(), steps.size(), views.operands.data()), data, samples,
                    y.data(), nullptr);
  expect_near(y.values(), wanted.output, "output");

  const ExpressionGradient gradient = gradient_of(layer);
  const std::vector<PointwiseStep> back = pointwise_steps(gradient.steps);
  const std::vector<std::int16_t> results(gradient.gradients.begin(), gradient.gradients.end());
  const PointwiseProgram program = views.program(back.data(), back.size(), views.operands.data());
  const std::vector<T> dy = rounded<T>(values.output_gradient);
  const std::vector<T> output = y.values();
  const auto readers = [](const PointwiseReaderLists& lists) {
    return PointwiseReaders{lists.starts.empty() ? nullptr : lists.starts.data(),
                            lists.entries.data(), lists.elements, lists.alone, lists.many};
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const PointwiseReaderLists lists(layer, views, Source::input, static_cast<int>(i), elements[i],
                                     1);
    Array<T> dx(samples * elements[i]);
    pointwise_input_gradient(program, data, results.data(), readers(lists), dy.data(),
                             output.data(), samples, dx.data(), nullptr);
    expect_near(dx.values(), wanted.input_gradients[i], "input gradient");
  }
  for (std::size_t p = 0; p < layer.parameters.size(); ++p) {
    const std::int64_t count = layer.parameters[p].shape.elements();
    const PointwiseReaderLists lists(layer, views, Source::parameter, static_cast<int>(p), count,
                                     samples);
    Array<float> d(count);
    pointwise_parameter_gradient(program, data, results.data(), readers(lists), dy.data(),
                                 output.data(), samples, d.data(), nullptr);
    std::vector<T> narrow = rounded<T>(d.values());
    expect_near(narrow, wanted.parameter_gradients[p], "parameter gradient");
  }
}

TYPED_TEST(PointwiseKernels, AgreeWithTheReference) {
  in_both_orders([] {
    for (const LayerCase& c : hetpipe::test::small_algebra_cases()) {
      if (std::holds_alternative<Pointwise>(c.spec)) run<TypeParam>(c);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
    for (const char* op : {"relu", "gelu", "silu", "mish", "where", "maximum", "pow", "clamp"}) {
      LayerCase c = hetpipe::test::pointwise_case(op, {2, 300});
      if (std::string(op) == "pow") {  // of what has real powers: squares
        Expression e;
        e.apply("pow", {e.variable(0), e.number(2)});
        Pointwise p = std::get<Pointwise>(c.spec);
        p.expression = e;
        p.operands.resize(1);
        c = {p, {c.inputs[0]}};
      }
      run<TypeParam>(c);
      ASSERT_FALSE(testing::Test::HasFatalFailure());
    }
  });
}

// Long lists of readers: a block for each.
TYPED_TEST(PointwiseKernels, SumOverManyPlaces) {
  Expression e;
  const int a = e.variable(0), b = e.variable(1);
  e.apply("mul", {a, b});
  const Pointwise scale{e,
                        {{Source::input, 0, 0, {5, 1}}, {Source::parameter, 0, 0, {0, 1}}},
                        {150, 5},
                        {{"gamma", {5}, Initial::one, 0}}};
  run<TypeParam>({scale, {{3, 150, 5}}});
}

}  // namespace pointwise_test
}  // namespace hetpipe::cuda
