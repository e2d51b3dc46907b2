// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "kernels/pointwise_layer.h"
#include "kernels/reference/algebra.h"
#include "kernels/reference/algebra_attention.h"
#include "kernels/reference/algebra_sums.h"
#include "tests/unit/kernels/algebra_cases.h"
#include "tests/unit/kernels/finite_differences.h"

// Gradients of the layers of kernels/algebra.h against central differences.
namespace hetpipe {
namespace algebra_gradient_test {

using test::LayerCase;
using test::sized;
using test::Values;

// Runs one layer's reference in double.
class Double {
 public:
  explicit Double(const LayerCase& c) : case_(c), shapes_(infer_shapes(c.spec, c.inputs)) {
    std::uint64_t key = 1;
    for (const Shape& in : c.inputs) inputs.push_back(test::values(key++, in.elements()));
    for (const ParameterShape& p : shapes_.parameters) {
      parameters.push_back(test::values(key++, p.shape.elements()));
    }
    dy = test::values(key, shapes_.output.elements());
    softmax_ = sized(shapes_.stash_bytes);
    if (const auto* a = std::get_if<Attention>(&c.spec); a != nullptr && a->dropout > 0) {
      for (std::int64_t i = 0; i < shapes_.stash_bytes; ++i) kept_.push_back(i % 3 != 0);
    }
    std::visit(
        [&](const auto& layer) {
          if constexpr (requires { layer.constants; }) constants_ = layer.constants;
        },
        c.spec);
  }

  Values forward() {
    y_ = sized(shapes_.output.elements());
    std::visit([&](const auto& layer) { forward(layer); }, case_.spec);
    return y_;
  }
  void backward() {
    for (const Values& in : inputs) input_gradients.push_back(sized(size(in)));
    for (const Values& p : parameters) parameter_gradients.push_back(sized(size(p)));
    const reference::Tensors<double> t = tensors();
    reference::Gradients<double> gradients(t, pointers(input_gradients),
                                           pointers(parameter_gradients));
    std::visit([&](const auto& layer) { backward(layer, t, gradients); }, case_.spec);
  }

  std::vector<Values> inputs, parameters, input_gradients, parameter_gradients;
  Values dy;

 private:
  static std::int64_t size(const Values& v) { return static_cast<std::int64_t>(v.size()); }
  static std::vector<double*> pointers(std::vector<Values>& all) {
    std::vector<double*> result;
    for (Values& v : all) result.push_back(v.data());
    return result;
  }
  reference::Tensors<double> tensors() const {
    reference::Tensors<double> t;
    t.samples = case_.inputs[0][0];
    for (const Values& in : inputs) {
      t.inputs.push_back(in.data());
      t.input_elements.push_back(size(in) / t.samples);
    }
    for (const Values& p : parameters) {
      t.parameters.push_back(p.data());
      t.parameter_elements.push_back(size(p));
    }
    t.constants = constants_;
    return t;
  }
  const std::uint8_t* kept() const { return kept_.empty() ? nullptr : kept_.data(); }
  std::int64_t features() const { return case_.inputs[0][case_.inputs[0].rank() - 1]; }

  void forward(const Pointwise& p) { reference::pointwise_forward(p, tensors(), y_.data()); }
  void forward(const Move& m) { reference::move_forward(m, tensors(), y_.data()); }
  void forward(const Reduce& r) { reference::reduce_forward(r, tensors(), y_.data()); }
  void forward(const Product& p) { reference::product_forward(p, tensors(), y_.data()); }
  void forward(const Softmax& s) {
    reference::softmax_forward(s, size(y_) / features(), features(), inputs[0].data(), y_.data());
  }
  void forward(const CumulativeSum&) {
    reference::cumulative_sum(reference::CumulativeSizes(case_.inputs[0]), false, inputs[0].data(),
                              y_.data());
  }
  void forward(const Attention& a) {
    reference::attention_forward(a, tensors(), kept(), softmax_.data(), y_.data());
  }
  template <class Layer>
  void forward(const Layer&) {
    FAIL();
  }

  using Gradients = reference::Gradients<double>;
  void backward(const Pointwise& p, const reference::Tensors<double>& t, Gradients& g) {
    reference::pointwise_backward(p, gradient_of(p), t, y_.data(), dy.data(), g);
    g.store();
  }
  void backward(const Move& m, const reference::Tensors<double>& t, Gradients& g) {
    reference::move_backward(m, t, dy.data(), g);
    g.store();
  }
  void backward(const Reduce& r, const reference::Tensors<double>& t, Gradients& g) {
    reference::reduce_backward(r, t, dy.data(), g);
    g.store();
  }
  void backward(const Product& p, const reference::Tensors<double>& t, Gradients& g) {
    reference::product_backward(p, t, dy.data(), g);
    g.store();
  }
  void backward(const Softmax& s, const reference::Tensors<double>&, Gradients&) {
    reference::softmax_backward(s, size(y_) / features(), features(), y_.data(), dy.data(),
                                input_gradients[0].data());
  }
  void backward(const CumulativeSum&, const reference::Tensors<double>&, Gradients&) {
    reference::cumulative_sum(reference::CumulativeSizes(case_.inputs[0]), true, dy.data(),
                              input_gradients[0].data());
  }
  void backward(const Attention& a, const reference::Tensors<double>& t, Gradients& g) {
    reference::attention_backward(a, t, kept(), softmax_.data(), dy.data(), g);
    g.store();
  }
  template <class Layer>
  void backward(const Layer&, const reference::Tensors<double>&, Gradients&) {
    FAIL();
  }

  const LayerCase& case_;
  LayerShapes shapes_;
  std::vector<ConstantTable<float>> constants_;
  Values y_, softmax_;
  std::vector<std::uint8_t> kept_;
};

void expect_gradients(Double& layer) {
  layer.forward();
  layer.backward();
  for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
    SCOPED_TRACE("input " + std::to_string(i));
    test::expect_gradient(layer.inputs[i], layer.input_gradients[i], layer.dy,
                          [&] { return layer.forward(); });
  }
  for (std::size_t i = 0; i < layer.parameters.size(); ++i) {
    SCOPED_TRACE("parameter " + std::to_string(i));
    test::expect_gradient(layer.parameters[i], layer.parameter_gradients[i], layer.dy,
                          [&] { return layer.forward(); });
  }
}

TEST(AlgebraGradient, Layers) {
  for (const LayerCase& c : test::small_algebra_cases()) {
    SCOPED_TRACE(to_string(c));
    Double layer(c);
    expect_gradients(layer);
    ASSERT_FALSE(testing::Test::HasFatalFailure());
  }
}

// Every row of the table, at points inside of its domain and away from where it jumps or bends.
TEST(AlgebraGradient, EveryOperator) {
  int differentiated = 0;
  for (std::int16_t row = 0; row < pointwise::kRows; ++row) {
    const std::string name = to_string(PointwiseOperator{row});
    if (name.ends_with("_slope") || name == "detach") continue;  // detach: 0 by definition
    SCOPED_TRACE(name);
    const LayerCase c = test::pointwise_case(name, {3, 7});
    Double layer(c);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      for (double& x : layer.inputs[i]) {
        if (name == "log" || name == "sqrt" || name == "rsqrt" || (name == "pow" && i == 0)) {
          x = 0.2 + std::abs(x);
        }
        if (name == "log1p") x = -0.8 + std::abs(x);
        if (name == "celu" && i == 1) x = 0.5 + std::abs(x);
        if (name == "elu" && i == 1) x = 0.5 + std::abs(x);
        if ((name == "clamp" || name == "hardtanh") && i == 2) x = 2 + std::abs(x);
        if ((name == "div") && i == 1) x = x < 0 ? x - 0.3 : x + 0.3;
        if (name == "reciprocal") x = x < 0 ? x - 0.3 : x + 0.3;
        // The bends of the hard functions.
        if (std::abs(std::abs(x) - 3) < 1e-3 || std::abs(x) < 1e-3) x = 0.25;
      }
    }
    if (name == "hardtanh") {  // its bounds are numbers
      layer.forward();
      layer.backward();
      test::expect_gradient(layer.inputs[0], layer.input_gradients[0], layer.dy,
                            [&] { return layer.forward(); });
    } else {
      expect_gradients(layer);
    }
    ASSERT_FALSE(testing::Test::HasFatalFailure());
    ++differentiated;
  }
  EXPECT_GE(differentiated, 40);
}

// PyTorch's choices where two sides meet.
TEST(AlgebraGradient, AtBends) {
  const auto slope = [](std::string_view name, std::vector<double> at, std::size_t argument) {
    const LayerCase c = test::pointwise_case(name, {1, 1});
    Double layer(c);
    for (std::size_t i = 0; i < at.size(); ++i) layer.inputs[i] = {at[i]};
    layer.dy = {1};
    layer.forward();
    layer.backward();
    return layer.input_gradients[argument][0];
  };
  EXPECT_EQ(slope("relu", {0}, 0), 0);
  EXPECT_EQ(slope("abs", {0}, 0), 0);
  EXPECT_EQ(slope("relu6", {0}, 0), 0);
  EXPECT_EQ(slope("relu6", {6}, 0), 0);
  EXPECT_EQ(slope("hardtanh", {-1, -1, 1}, 0), 0);
  EXPECT_EQ(slope("hardtanh", {1, -1, 1}, 0), 0);
  EXPECT_EQ(slope("clamp", {-1, -1, 1}, 0), 1);
  EXPECT_EQ(slope("clamp", {1, -1, 1}, 0), 1);
  EXPECT_EQ(slope("maximum", {2, 2}, 0), 0.5);
  EXPECT_EQ(slope("maximum", {2, 2}, 1), 0.5);
  EXPECT_EQ(slope("minimum", {2, 2}, 0), 0.5);
  EXPECT_EQ(slope("leaky_relu", {0, 0.25}, 0), 0.25);
  EXPECT_EQ(slope("elu", {0, 0.5}, 0), 0.5);
  EXPECT_EQ(slope("hardsigmoid", {3}, 0), 0);
  EXPECT_EQ(slope("pow", {0, 2}, 0), 0);
  EXPECT_EQ(slope("pow", {0, 0}, 0), 0);
  EXPECT_EQ(slope("pow", {0, 2}, 1), 0);
  EXPECT_EQ(slope("floor", {0.5}, 0), 0);
}

// What backward reads: outputs where that spares an input.
TEST(AlgebraGradient, WhatBackwardReads) {
  const auto needs = [](std::string_view name) {
    return backward_needs(std::get<Pointwise>(test::pointwise_case(name, {1, 1}).spec));
  };
  for (const char* name : {"relu", "tanh", "sigmoid", "exp", "sqrt", "rsqrt", "selu"}) {
    EXPECT_TRUE(needs(name).output) << name;
    EXPECT_FALSE(needs(name).operands[0]) << name;
  }
  EXPECT_FALSE(needs("gelu").output);
  EXPECT_TRUE(needs("gelu").operands[0]);
  EXPECT_EQ(needs("add").operands, (std::vector<bool>{false, false}));
  EXPECT_EQ(needs("mul").operands, (std::vector<bool>{true, true}));
  EXPECT_FALSE(needs("mul").output);
  EXPECT_EQ(needs("where").operands, (std::vector<bool>{true, false, false}));
}

TEST(AlgebraGradient, DerivativesAreShort) {
  Expression e;
  const int x = e.variable(0);
  e.apply("pow", {x, e.number(2)});
  EXPECT_EQ(to_string(simplified(e)), "square(a)");
  EXPECT_EQ(to_string(gradient_of(e, {true}, false).steps), "b * 2 * a");
  Expression tanh;
  tanh.apply("tanh", {tanh.variable(0)});
  EXPECT_EQ(to_string(gradient_of(tanh, {true}, true).steps), "b * (1 - c * c)");
}

}  // namespace algebra_gradient_test
}  // namespace hetpipe
