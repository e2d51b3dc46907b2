// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// An expression of elementwise operators, as a list of steps in which each step reads earlier ones:
// what a Pointwise layer computes of every element.
namespace hetpipe {

// The operators: numbers of rows in the table of kernels/pointwise_operators.h.
struct PointwiseOperator {
  std::int16_t row = -1;
  bool operator==(const PointwiseOperator&) const = default;
};
// "add", "where", "gelu"; throws std::invalid_argument for an unknown one.
PointwiseOperator pointwise_operator(std::string_view name);
bool has_pointwise_operator(std::string_view name);
int arity(PointwiseOperator op);
const char* to_string(PointwiseOperator op);
double flops(PointwiseOperator op);

struct Expression {
  enum class Kind : std::uint8_t { variable, number, apply };
  struct Step {
    Kind kind = Kind::variable;
    std::int16_t variable = 0;                          // an operand
    float number = 0;                                   // a constant
    PointwiseOperator op = {};                          // of earlier steps
    std::array<std::int16_t, 3> arguments{-1, -1, -1};  // -1: none
    bool operator==(const Step&) const = default;
  };
  std::vector<Step> steps;  // the last is the value

  // Each appends a step, unless there is an equal one, and returns its number.
  int variable(int operand);
  int number(float value);
  int apply(std::string_view op, std::initializer_list<int> arguments);
  bool operator==(const Expression&) const = default;
};

// "relu(a + b * 0.5)": operands are a, b, ...
std::string to_string(const Expression& expression);

}  // namespace hetpipe
