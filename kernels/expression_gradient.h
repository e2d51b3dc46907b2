// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <vector>

#include "kernels/expression.h"

// The derivative of an expression, as an expression (reverse mode over its steps), from the rules
// of kernels/pointwise_operators.h.
namespace hetpipe {

// An expression of the operands' values and of two variables more.
struct ExpressionGradient {
  Expression steps;
  // By operand: the step that is its gradient; -1: it has none, or nobody wants it.
  std::vector<int> gradients;

  // The variables that it reads: the operands, then the output's gradient, then the output.
  std::vector<bool> reads(std::size_t operands) const;
};
inline int gradient_variable(std::size_t operands) { return static_cast<int>(operands); }
inline int output_variable(std::size_t operands) { return static_cast<int>(operands) + 1; }

// `wanted`: of which operands. `from_output`: the last operator's derivative may read the output.
ExpressionGradient gradient_of(const Expression& expression, const std::vector<bool>& wanted,
                               bool from_output);

// The same value in fewer steps: numbers folded where floats are exact, powers by squares and
// roots, steps that nothing reads left out. Reordered but for the last.
Expression simplified(const Expression& expression);

// The steps that `results` need; they become the steps' new numbers.
Expression needed_steps(const Expression& expression, std::vector<int>& results);

}  // namespace hetpipe
