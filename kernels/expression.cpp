// SPDX-License-Identifier: Apache-2.0
#include "kernels/expression.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <stdexcept>

#include "base/text.h"
#include "kernels/pointwise_operators.h"

namespace hetpipe {
namespace expression {

constexpr std::array kNames{
#define HETPIPE_ROW(name, arguments, value, flops, gradients) #name,
    HETPIPE_POINTWISE_OPERATORS(HETPIPE_ROW)
#undef HETPIPE_ROW
};
constexpr std::array kArities{
#define HETPIPE_ROW(name, arguments, value, flops, gradients) arguments,
    HETPIPE_POINTWISE_OPERATORS(HETPIPE_ROW)
#undef HETPIPE_ROW
};
constexpr std::array<double, pointwise::kRows> kFlops{
#define HETPIPE_ROW(name, arguments, value, flops, gradients) flops,
    HETPIPE_POINTWISE_OPERATORS(HETPIPE_ROW)
#undef HETPIPE_ROW
};

std::int16_t row_of_name(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  return found == kNames.end() ? std::int16_t{-1}
                               : static_cast<std::int16_t>(found - kNames.begin());
}

int appended(Expression& e, const Expression::Step& step) {
  for (std::size_t i = 0; i < e.steps.size(); ++i) {
    // Bits of numbers are compared: 0 and -0 differ, a NaN is one.
    const Expression::Step& other = e.steps[i];
    if (other.kind == step.kind && other.variable == step.variable && other.op == step.op &&
        other.arguments == step.arguments &&
        std::bit_cast<std::uint32_t>(other.number) == std::bit_cast<std::uint32_t>(step.number)) {
      return static_cast<int>(i);
    }
  }
  if (e.steps.size() >= INT16_MAX) throw std::invalid_argument("an expression of 32,767 steps");
  e.steps.push_back(step);
  return static_cast<int>(e.steps.size()) - 1;
}

std::string variable_text(int v) {
  std::string name(1, static_cast<char>('a' + v % 26));
  return v < 26 ? name : name + std::to_string(v / 26);
}

// How tightly an operator holds what it applies to.
enum Binding { kSum = 1, kProduct = 2, kCall = 3 };

std::string step_text(const Expression& e, int at, Binding around) {
  const Expression::Step& step = e.steps[static_cast<std::size_t>(at)];
  if (step.kind == Expression::Kind::variable) return variable_text(step.variable);
  if (step.kind == Expression::Kind::number)
    return format("%.9g", static_cast<double>(step.number));
  const auto infix = [&](const char* sign, Binding own, Binding right) {
    const std::string text =
        step_text(e, step.arguments[0], own) + sign + step_text(e, step.arguments[1], right);
    return own < around ? "(" + text + ")" : text;
  };
  switch (step.op.row) {
    case pointwise::k_add:
      return infix(" + ", kSum, kProduct);
    case pointwise::k_sub:
      return infix(" - ", kSum, kProduct);
    case pointwise::k_mul:
      return infix(" * ", kProduct, kCall);
    case pointwise::k_div:
      return infix(" / ", kProduct, kCall);
    default:
      break;
  }
  std::string text = std::string(to_string(step.op)) + "(";
  for (int i = 0; i < arity(step.op); ++i) {
    text += (i == 0 ? "" : ", ") + step_text(e, step.arguments[static_cast<std::size_t>(i)], kSum);
  }
  return text + ")";
}

}  // namespace expression

PointwiseOperator pointwise_operator(std::string_view name) {
  const PointwiseOperator op{expression::row_of_name(name)};
  if (op.row < 0) {
    const std::vector<std::string> names(expression::kNames.begin(), expression::kNames.end());
    throw std::invalid_argument(unknown("pointwise operator", name, names));
  }
  return op;
}

bool has_pointwise_operator(std::string_view name) { return expression::row_of_name(name) >= 0; }

int arity(PointwiseOperator op) {
  return expression::kArities.at(static_cast<std::size_t>(op.row));
}

double flops(PointwiseOperator op) {
  return expression::kFlops.at(static_cast<std::size_t>(op.row));
}

const char* to_string(PointwiseOperator op) {
  return expression::kNames.at(static_cast<std::size_t>(op.row));
}

int Expression::variable(int operand) {
  return expression::appended(
      *this, {.kind = Kind::variable, .variable = static_cast<std::int16_t>(operand)});
}

int Expression::number(float value) {
  return expression::appended(*this, {.kind = Kind::number, .number = value});
}

int Expression::apply(std::string_view op, std::initializer_list<int> arguments) {
  Step step{.kind = Kind::apply, .op = pointwise_operator(op)};
  if (static_cast<int>(arguments.size()) != arity(step.op)) {
    throw std::invalid_argument(
        format("%s of %zu arguments", to_string(step.op), arguments.size()));
  }
  std::size_t i = 0;
  for (const int a : arguments) {
    if (a < 0 || static_cast<std::size_t>(a) >= steps.size()) {
      throw std::invalid_argument(format("%s of a step that is not there", to_string(step.op)));
    }
    step.arguments[i++] = static_cast<std::int16_t>(a);
  }
  return expression::appended(*this, step);
}

std::string to_string(const Expression& e) {
  if (e.steps.empty()) return "nothing";
  return expression::step_text(e, static_cast<int>(e.steps.size()) - 1, expression::kSum);
}

}  // namespace hetpipe
