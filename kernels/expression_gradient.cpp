// SPDX-License-Identifier: Apache-2.0
#include "kernels/expression_gradient.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "base/error.h"
#include "kernels/pointwise_operators.h"

namespace hetpipe {
namespace expression_gradient {

constexpr std::array<std::string_view, pointwise::kRows> kGradients{
#define HETPIPE_ROW(name, arguments, value, flops, gradients) gradients,
    HETPIPE_POINTWISE_OPERATORS(HETPIPE_ROW)
#undef HETPIPE_ROW
};

// Appends steps to an expression, in fewer steps where that changes no value.
class Builder {
 public:
  explicit Builder(Expression& expression) : e_(expression) {}

  int number(double value) { return e_.number(static_cast<float>(value)); }

  int apply(std::int16_t row, std::array<int, 3> a) {
    using namespace pointwise;
    if (const auto folded = fold(row, a)) return number(*folded);
    switch (row) {
      case k_add:
        if (is(a[0], 0)) return a[1];
        if (is(a[1], 0)) return a[0];
        break;
      case k_sub:
        if (is(a[1], 0)) return a[0];
        if (is(a[0], 0)) return apply(k_neg, {a[1], -1, -1});
        break;
      case k_mul:
        if (is(a[0], 0) || is(a[1], 0)) return number(0);
        if (is(a[0], 1)) return a[1];
        if (is(a[1], 1)) return a[0];
        if (is(a[0], -1)) return apply(k_neg, {a[1], -1, -1});
        if (is(a[1], -1)) return apply(k_neg, {a[0], -1, -1});
        break;
      case k_div:
        if (is(a[0], 0)) return number(0);
        if (is(a[1], 1)) return a[0];
        break;
      case k_neg:
        if (step(a[0]).kind == Expression::Kind::apply && step(a[0]).op.row == k_neg) {
          return step(a[0]).arguments[0];
        }
        break;
      case k_where:
        if (a[1] == a[2]) return a[1];
        if (step(a[0]).kind == Expression::Kind::number) return is(a[0], 0) ? a[2] : a[1];
        break;
      case k_pow:
        if (const auto simple = power(a[0], a[1])) return *simple;
        break;
      default:
        break;
    }
    return raw(row, a);
  }

 private:
  const Expression::Step& step(int at) const { return e_.steps[static_cast<std::size_t>(at)]; }
  bool is(int at, float value) const {
    return step(at).kind == Expression::Kind::number && step(at).number == value;
  }
  int raw(std::int16_t row, const std::array<int, 3>& a) {
    const PointwiseOperator op{row};
    switch (arity(op)) {
      case 1:
        return e_.apply(to_string(op), {a[0]});
      case 2:
        return e_.apply(to_string(op), {a[0], a[1]});
      default:
        return e_.apply(to_string(op), {a[0], a[1], a[2]});
    }
  }

  std::optional<double> fold(std::int16_t row, const std::array<int, 3>& a) const {
    std::array<double, 3> v{};
    for (int i = 0; i < arity(PointwiseOperator{row}); ++i) {
      const Expression::Step& s = step(a[static_cast<std::size_t>(i)]);
      if (s.kind != Expression::Kind::number) return std::nullopt;
      v[static_cast<std::size_t>(i)] = static_cast<double>(s.number);
    }
    const double value = pointwise::visit_row(row, [&]<std::int16_t r>() {
      return pointwise::Operator<r>::template apply<double>(v[0], v[1], v[2]);
    });
    if (static_cast<double>(static_cast<float>(value)) != value) return std::nullopt;
    return value;
  }

  std::optional<int> power(int x, int y) {
    using namespace pointwise;
    if (is(y, 0)) return number(1);
    if (is(y, 1)) return x;
    if (is(y, 2)) return raw(k_square, {x, -1, -1});
    if (is(y, 3)) return raw(k_mul, {raw(k_square, {x, -1, -1}), x, -1});
    if (is(y, 4)) return raw(k_square, {raw(k_square, {x, -1, -1}), -1, -1});
    if (is(y, 0.5f)) return raw(k_sqrt, {x, -1, -1});
    if (is(y, -0.5f)) return raw(k_rsqrt, {x, -1, -1});
    if (is(y, -1)) return raw(k_reciprocal, {x, -1, -1});
    if (is(y, -2)) return raw(k_reciprocal, {raw(k_square, {x, -1, -1}), -1, -1});
    return std::nullopt;
  }

  Expression& e_;
};

// What the names in a rule stand for.
struct Names {
  std::array<int, 3> arguments;
  int gradient = -1, output = -1;
};

// A recursive descent over "g*(1-o*o)". The table's rules are ours: a fault in one is a broken
// invariant, and the test of all rows meets it.
class Rule {
 public:
  Rule(Builder& builder, std::string_view text, const Names& names)
      : builder_(builder), text_(text), names_(names) {}

  int value() {
    const int result = sum();
    skip_spaces();
    ensure(text_.empty(), "a rule of the pointwise operators ends where it should");
    return result;
  }

 private:
  int sum() {
    int left = product();
    for (;;) {
      if (take('+')) {
        left = builder_.apply(pointwise::k_add, {left, product(), -1});
      } else if (take('-')) {
        left = builder_.apply(pointwise::k_sub, {left, product(), -1});
      } else {
        return left;
      }
    }
  }
  int product() {
    int left = factor();
    for (;;) {
      if (take('*')) {
        left = builder_.apply(pointwise::k_mul, {left, factor(), -1});
      } else if (take('/')) {
        left = builder_.apply(pointwise::k_div, {left, factor(), -1});
      } else {
        return left;
      }
    }
  }
  int factor() {
    if (take('-')) return builder_.apply(pointwise::k_neg, {factor(), -1, -1});
    if (take('(')) {
      const int inside = sum();
      ensure(take(')'), "a rule of the pointwise operators closes its brackets");
      return inside;
    }
    skip_spaces();
    if (!text_.empty() && std::isdigit(static_cast<unsigned char>(text_[0])) != 0) {
      double number = 0;
      const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), number);
      ensure(error == std::errc{}, "a number in a rule of the pointwise operators");
      text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
      return builder_.number(number);
    }
    std::size_t length = 0;
    while (length < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[length])) != 0 || text_[length] == '_')) {
      ++length;
    }
    const std::string_view name = text_.substr(0, length);
    text_.remove_prefix(length);
    return take('(') ? call(name) : named(name);
  }
  int call(std::string_view name) {
    const PointwiseOperator op = pointwise_operator(name);
    std::array<int, 3> arguments{-1, -1, -1};
    for (int i = 0; i < arity(op); ++i) {
      if (i > 0) ensure(take(','), "a rule of the pointwise operators gives all arguments");
      arguments[static_cast<std::size_t>(i)] = sum();
    }
    ensure(take(')'), "a rule of the pointwise operators closes its brackets");
    return builder_.apply(op.row, arguments);
  }
  int named(std::string_view name) const {
    if (name == "x") return names_.arguments[0];
    if (name == "y") return names_.arguments[1];
    if (name == "z") return names_.arguments[2];
    if (name == "g") return names_.gradient;
    ensure(name == "o", "a rule of the pointwise operators is of x, y, z, g and o");
    return names_.output;
  }
  bool take(char c) {
    skip_spaces();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  void skip_spaces() {
    while (!text_.empty() && text_[0] == ' ') text_.remove_prefix(1);
  }

  Builder& builder_;
  std::string_view text_;
  Names names_;
};

// The rule for an operator's argument.
std::string_view rule_of(PointwiseOperator op, std::size_t argument) {
  std::string_view text = kGradients[static_cast<std::size_t>(op.row)];
  ensure(!text.empty(), "an operator that only derivatives use is not differentiated");
  for (std::size_t i = 0; i < argument; ++i) text.remove_prefix(text.find(';') + 1);
  return text.substr(0, text.find(';'));
}

std::array<int, 3> arguments_of(const Expression::Step& step, const std::vector<int>& numbers) {
  std::array<int, 3> a{-1, -1, -1};
  for (std::size_t i = 0; i < 3 && step.arguments[i] >= 0; ++i) {
    a[i] = numbers[static_cast<std::size_t>(step.arguments[i])];
  }
  return a;
}

// The steps of `from` appended; their new numbers.
std::vector<int> copied(const Expression& from, Expression& to) {
  Builder builder(to);
  std::vector<int> numbers;
  for (const Expression::Step& step : from.steps) {
    switch (step.kind) {
      case Expression::Kind::variable:
        numbers.push_back(to.variable(step.variable));
        break;
      case Expression::Kind::number:
        numbers.push_back(to.number(step.number));
        break;
      case Expression::Kind::apply:
        numbers.push_back(builder.apply(step.op.row, arguments_of(step, numbers)));
        break;
    }
  }
  return numbers;
}

}  // namespace expression_gradient

using namespace expression_gradient;

std::vector<bool> ExpressionGradient::reads(std::size_t operands) const {
  std::vector<bool> read(operands + 2, false);
  for (const Expression::Step& s : steps.steps) {
    if (s.kind == Expression::Kind::variable) read[static_cast<std::size_t>(s.variable)] = true;
  }
  return read;
}

Expression needed_steps(const Expression& expression, std::vector<int>& results) {
  std::vector<bool> needed(expression.steps.size(), false);
  for (const int r : results) {
    if (r >= 0) needed[static_cast<std::size_t>(r)] = true;
  }
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i]) continue;
    for (const int a : expression.steps[i].arguments) {
      if (a >= 0) needed[static_cast<std::size_t>(a)] = true;
    }
  }
  Expression kept;
  std::vector<int> numbers(needed.size(), -1);
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (!needed[i]) continue;
    Expression::Step step = expression.steps[i];
    for (std::int16_t& a : step.arguments) {
      if (a >= 0) a = static_cast<std::int16_t>(numbers[static_cast<std::size_t>(a)]);
    }
    numbers[i] = static_cast<int>(kept.steps.size());
    kept.steps.push_back(step);
  }
  for (int& r : results) {
    if (r >= 0) r = numbers[static_cast<std::size_t>(r)];
  }
  return kept;
}

Expression simplified(const Expression& expression) {
  Expression all;
  const std::vector<int> numbers = copied(expression, all);
  std::vector<int> results{numbers.back()};
  return needed_steps(all, results);  // the value is needed by all others: it is the last
}

ExpressionGradient gradient_of(const Expression& expression, const std::vector<bool>& wanted,
                               bool from_output) {
  ExpressionGradient result;
  Expression all;
  const std::vector<int> numbers = copied(expression, all);
  Builder builder(all);
  const std::size_t count = expression.steps.size();

  // Steps on the way from what is wanted to the value.
  std::vector<bool> reaches(count, false);
  for (std::size_t i = 0; i < count; ++i) {
    const Expression::Step& step = expression.steps[i];
    if (step.kind == Expression::Kind::variable) {
      reaches[i] = wanted[static_cast<std::size_t>(step.variable)];
    }
    for (const int a : step.arguments) {
      if (a >= 0 && reaches[static_cast<std::size_t>(a)]) reaches[i] = true;
    }
  }
  std::vector<int> gradients(count, -1);
  gradients[count - 1] = all.variable(gradient_variable(wanted.size()));
  for (std::size_t i = count; i-- > 0;) {
    const Expression::Step& step = expression.steps[i];
    if (step.kind != Expression::Kind::apply || !reaches[i] || gradients[i] < 0) continue;
    Names names{arguments_of(step, numbers), gradients[i], numbers[i]};
    if (from_output && i == count - 1) names.output = all.variable(output_variable(wanted.size()));
    for (std::size_t a = 0; a < 3 && step.arguments[a] >= 0; ++a) {
      const auto argument = static_cast<std::size_t>(step.arguments[a]);
      if (!reaches[argument]) continue;
      const int own = Rule(builder, rule_of(step.op, a), names).value();
      const Expression::Step& value = all.steps[static_cast<std::size_t>(own)];
      if (value.kind == Expression::Kind::number && value.number == 0) continue;
      int& sum = gradients[argument];
      sum = sum < 0 ? own : builder.apply(pointwise::k_add, {sum, own, -1});
    }
  }
  result.gradients.assign(wanted.size(), -1);
  for (std::size_t i = 0; i < count; ++i) {
    const Expression::Step& step = expression.steps[i];
    if (step.kind == Expression::Kind::variable && reaches[i]) {
      result.gradients[static_cast<std::size_t>(step.variable)] = gradients[i];
    }
  }
  result.steps = needed_steps(all, result.gradients);
  return result;
}

}  // namespace hetpipe
