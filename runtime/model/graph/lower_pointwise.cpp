// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/model/graph/importer.h"

// Elementwise operators: they grow the expression of their arguments.
namespace hetpipe::graph {
namespace {

constexpr std::size_t kMostLeaves = 8;
constexpr std::size_t kMostSteps = 48;

double elements(const TensorShape& shape) {
  double all = 1;
  for (const Extent& e : shape) all *= static_cast<double>(e.number) * (e.samples ? 1e9 : 1);
  return all;
}

// What would be computed again for every place that it is broadcast to is computed once, and so is
// what would make an expression too long.
Tensor ready(Importer& importer, const Node& node, const Tensor& argument,
             const TensorShape& shape) {
  if (argument.bare() || !argument.has_layer()) return argument;
  const bool repeated = elements(argument.shape) < elements(shape);
  const bool long_one =
      argument.leaves.size() > kMostLeaves || argument.expression.steps.size() > kMostSteps;
  return repeated || long_one ? importer.materialize(node, argument) : argument;
}

void apply_to(Importer& importer, const Node& node, std::string_view op,
              std::vector<Tensor> arguments) {
  const TensorShape& shape = node.shapes[0];
  for (Tensor& argument : arguments) argument = ready(importer, node, argument, shape);
  importer.result(node, apply(op, arguments, shape));
}

// The operator of the table that has the node's name, of these arguments.
template <const char*... kArguments>
void same(Importer& importer, const Node& node) {
  apply_to(importer, node, node.op, {importer.operand(node, kArguments)...});
}
constexpr char kSelf[] = "self";
constexpr char kOther[] = "other";

void unary(Importer& importer, const Node& node) {
  apply_to(importer, node, node.op,
           {importer.input(node, node.has_input("self") ? "self" : "input")});
}

// self + alpha * other, self - alpha * other
void sum(Importer& importer, const Node& node) {
  Tensor self = importer.operand(node, "self"), other = importer.operand(node, "other");
  const double alpha = importer.attributes(node).number("alpha", 1);
  if (alpha != 1) other = apply("mul", {other, number(alpha)}, other.shape);
  const bool reversed = node.op == "rsub";
  if (reversed) std::swap(self, other);
  apply_to(importer, node, node.op == "add" ? "add" : "sub", {self, other});
}

void divide(Importer& importer, const Node& node) {
  const std::string rounding = importer.attributes(node).text("rounding_mode", "");
  const std::vector<Tensor> arguments{importer.operand(node, "self"),
                                      importer.operand(node, "other")};
  if (rounding.empty() && node.op == "div") return apply_to(importer, node, "div", arguments);
  if (rounding == "trunc") throw Unsupported("rounding_mode='trunc'");
  const TensorShape& shape = node.shapes[0];
  const Tensor quotient = apply("div", arguments, shape);
  importer.result(node, apply("floor", {quotient}, shape));
}

void power(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  if (!node.has_input("exponent")) {
    const double exponent = attributes.number("exponent");
    const Tensor self = importer.operand(node, "self");
    if (exponent == 2) return apply_to(importer, node, "square", {self});
    if (exponent == 1) return importer.result(node, self);
    if (exponent == 0.5) return apply_to(importer, node, "sqrt", {self});
    if (exponent == -0.5) return apply_to(importer, node, "rsqrt", {self});
    if (exponent == -1) return apply_to(importer, node, "reciprocal", {self});
    if (exponent == 3) {
      const TensorShape& shape = node.shapes[0];
      const Tensor x = ready(importer, node, self, shape);
      return importer.result(node, apply("mul", {apply("square", {x}, shape), x}, shape));
    }
  }
  apply_to(importer, node, "pow",
           {importer.operand(node, "self"), importer.operand(node, "exponent")});
}

void gelu(Importer& importer, const Node& node) {
  const std::string how = importer.attributes(node).text("approximate", "none");
  apply_to(importer, node, how == "tanh" ? "gelu_tanh" : "gelu", {importer.input(node, "self")});
}

void hardtanh(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const double low = attributes.number("min_val", -1), high = attributes.number("max_val", 1);
  const Tensor self = importer.input(node, "self");
  if (low == 0 && high == 6) return apply_to(importer, node, "relu6", {self});
  apply_to(importer, node, "hardtanh", {self, number(low), number(high)});
}

void clamp(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  Tensor x = importer.input(node, "self");
  const TensorShape& shape = node.shapes[0];
  x = ready(importer, node, x, shape);
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto limit = [&](const char* name, double none) {
    return node.has_input(name) || attributes.has(name) ? importer.operand(node, name)
                                                        : number(none);
  };
  importer.result(node,
                  apply("clamp", {x, limit("min", -kInfinite), limit("max", kInfinite)}, shape));
}

void slope(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const Tensor self = importer.input(node, "self");
  if (node.op == "leaky_relu") {
    return apply_to(importer, node, "leaky_relu",
                    {self, number(attributes.number("negative_slope", 0.01))});
  }
  if (node.op == "celu") {
    return apply_to(importer, node, "celu", {self, number(attributes.number("alpha", 1))});
  }
  if (attributes.number("scale", 1) != 1 || attributes.number("input_scale", 1) != 1) {
    throw Unsupported("elu with scales");
  }
  apply_to(importer, node, "elu", {self, number(attributes.number("alpha", 1))});
}

void softplus(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const double beta = attributes.number("beta", 1);
  Tensor x = importer.input(node, "self");
  const TensorShape& shape = node.shapes[0];
  x = ready(importer, node, x, shape);
  if (beta != 1) x = apply("mul", {x, number(beta)}, shape);
  x = apply("softplus", {x}, shape);
  if (beta != 1) x = apply("div", {x, number(beta)}, shape);
  importer.result(node, x);
}

// Weights of one channel each (dimension 1), or one for all.
void prelu(Importer& importer, const Node& node) {
  Tensor weight = importer.input(node, "weight");
  const TensorShape& shape = node.shapes[0];
  const Tensor self = ready(importer, node, importer.input(node, "self"), shape);
  if (weight.shape[0].number > 1) {
    for (int d = 2; d < self.rank(); ++d) insert_dimension(weight, 1);
  }
  const Tensor scaled = apply("mul", {self, weight}, shape);
  const Tensor positive = apply("gt", {self, number(0)}, shape);
  importer.result(node, apply("where", {positive, self, scaled}, shape));
}

// Of booleans, which are all that is computed here.
void logical(Importer& importer, const Node& node) {
  if (node.types[0] != "bool") throw Unsupported("bits of whole numbers");
  const bool both = node.op.find("and") != std::string::npos;
  const bool one = node.op.find("xor") != std::string::npos;
  apply_to(importer, node,
           one    ? "ne"
           : both ? "logical_and"
                  : "logical_or",
           {importer.operand(node, "self"), importer.operand(node, "other")});
}

void where(Importer& importer, const Node& node) {
  apply_to(importer, node, "where",
           {importer.input(node, "condition"), importer.operand(node, "self"),
            importer.operand(node, "other")});
}

void masked_fill(Importer& importer, const Node& node) {
  apply_to(importer, node, "where",
           {importer.input(node, "mask"), importer.operand(node, "value"),
            importer.input(node, "self")});
}

// self + value * tensor1 * tensor2, and with a quotient.
void add_product(Importer& importer, const Node& node) {
  const TensorShape& shape = node.shapes[0];
  const Tensor a = importer.input(node, "tensor1"), b = importer.input(node, "tensor2");
  Tensor term = apply(node.op == "addcmul" ? "mul" : "div", {a, b}, shape);
  const double value = importer.attributes(node).number("value", 1);
  if (value != 1) term = apply("mul", {term, number(value)}, shape);
  apply_to(importer, node, "add", {importer.input(node, "self"), term});
}

// start + weight * (end - start)
void lerp(Importer& importer, const Node& node) {
  const TensorShape& shape = node.shapes[0];
  const Tensor start = importer.input(node, "self"), end = importer.input(node, "end");
  const Tensor step = apply("sub", {end, start}, shape);
  apply_to(importer, node, "add",
           {start, apply("mul", {importer.operand(node, "weight"), step}, shape)});
}

// What is made of other operators of the table.
void composed(Importer& importer, const Node& node) {
  const Attributes attributes = importer.attributes(node);
  const TensorShape& shape = node.shapes[0];
  const Tensor x =
      ready(importer, node, importer.input(node, node.has_input("self") ? "self" : "input"), shape);
  const auto op = [&](std::string_view name, const Tensor& a, const Tensor& b) {
    return apply(name, {a, b}, shape);
  };
  const auto of = [&](std::string_view name, const Tensor& a) { return apply(name, {a}, shape); };
  const Tensor zero = number(0);
  if (node.op == "exp2")
    return importer.result(node, of("exp", op("mul", x, number(std::log(2.0)))));
  if (node.op == "log2")
    return importer.result(node, op("mul", of("log", x), number(1 / std::log(2.0))));
  if (node.op == "log_sigmoid")
    return importer.result(node, of("neg", of("softplus", of("neg", x))));
  if (node.op == "softsign") {
    return importer.result(node, op("div", x, op("add", of("abs", x), number(1))));
  }
  if (node.op == "tanhshrink") return importer.result(node, op("sub", x, of("tanh", x)));
  if (node.op == "threshold") {
    const Tensor above = op("gt", x, importer.operand(node, "threshold"));
    return importer.result(node,
                           apply("where", {above, x, importer.operand(node, "value")}, shape));
  }
  const Tensor limit = number(attributes.number("lambd", 0.5));
  const Tensor beyond = op("gt", of("abs", x), limit);
  if (node.op == "hardshrink")
    return importer.result(node, apply("where", {beyond, x, zero}, shape));
  const Tensor shrunk = op("sub", x, op("mul", of("sign", x), limit));  // softshrink
  importer.result(node, apply("where", {beyond, shrunk, zero}, shape));
}

// Below, or above, a diagonal of the last two dimensions 0.
void triangle(Importer& importer, const Node& node) {
  const TensorShape& shape = node.shapes[0];
  const std::int64_t rows = shape[shape.size() - 2].number, columns = shape.back().number;
  const std::int64_t diagonal = importer.attributes(node).integer("diagonal", 0);
  std::vector<float> kept;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      const bool keep = node.op == "tril" ? c - r <= diagonal : c - r >= diagonal;
      kept.push_back(keep ? 1.0f : 0.0f);
    }
  }
  Leaf leaf;
  leaf.kind = Leaf::Kind::constant;
  leaf.values = ConstantTable<float>(std::move(kept));
  const TensorShape of_mask{{rows, false}, {columns, false}};
  leaf.dimensions = in_order(of_mask);
  apply_to(importer, node, "where", {bare(leaf, of_mask), importer.input(node, "self"), number(0)});
}

void negation(Importer& importer, const Node& node) {
  if (node.types[0] != "bool") throw Unsupported("bits of whole numbers");
  apply_to(importer, node, "logical_not", {importer.input(node, "self")});
}

// Halves of a dimension: a * sigmoid(b).
void glu(Importer& importer, const Node& node) {
  const std::int64_t given = importer.attributes(node).integer("dim", -1);
  Tensor self = importer.input(node, "self");
  if (!self.bare()) self = importer.materialize(node, self);
  const int dim = static_cast<int>(given < 0 ? given + self.rank() : given);
  const std::int64_t half = self.shape[static_cast<std::size_t>(dim)].number / 2;
  Tensor a = self, b = self;
  if (!slice(a, dim, 0, 1, half) || !slice(b, dim, half, 1, half)) {
    throw Unsupported("halves of a dimension that is not in one piece");
  }
  const TensorShape& shape = node.shapes[0];
  importer.result(node, apply("mul", {a, apply("sigmoid", {b}, shape)}, shape));
}

// Another type of the same values: whole numbers and booleans are floats here.
void convert(Importer& importer, const Node& node) {
  const Tensor self = importer.input(node, node.has_input("self") ? "self" : "input");
  const std::string type = node.types[0];
  if (type == "bool") return apply_to(importer, node, "ne", {self, number(0)});
  if (type == "float16" || type == "bfloat16" || type.starts_with("complex")) {
    throw Unsupported("a conversion to " + type + " (the device decides what it computes in)");
  }
  importer.result(node, self);
}

}  // namespace

std::vector<LoweringRow> pointwise_lowerings() {
  std::vector<LoweringRow> rows{
      {"add", sum},
      {"sub", sum},
      {"rsub", sum},
      {"mul", same<kSelf, kOther>},
      {"div", divide},
      {"floor_divide", divide},
      {"pow", power},
      {"gelu", gelu},
      {"hardtanh", hardtanh},
      {"clamp", clamp},
      {"clamp_min", clamp},
      {"clamp_max", clamp},
      {"leaky_relu", slope},
      {"elu", slope},
      {"celu", slope},
      {"softplus", softplus},
      {"prelu", prelu},
      {"where", where},
      {"addcmul", add_product},
      {"addcdiv", add_product},
      {"lerp", lerp},
      {"exp2", composed},
      {"log2", composed},
      {"log_sigmoid", composed},
      {"softsign", composed},
      {"tanhshrink", composed},
      {"threshold", composed},
      {"hardshrink", composed},
      {"softshrink", composed},
      {"tril", triangle},
      {"triu", triangle},
      {"bitwise_not", negation},
      {"masked_fill", masked_fill},
      {"glu", glu},
      {"to", convert},
      {"_to_copy", convert},
      {"maximum", same<kSelf, kOther>},
      {"minimum", same<kSelf, kOther>},
      {"eq", same<kSelf, kOther>},
      {"ne", same<kSelf, kOther>},
      {"lt", same<kSelf, kOther>},
      {"le", same<kSelf, kOther>},
      {"gt", same<kSelf, kOther>},
      {"ge", same<kSelf, kOther>},
      {"logical_and", logical},
      {"logical_or", logical},
      {"logical_xor", logical},
      {"bitwise_and", logical},
      {"bitwise_or", logical},
      {"bitwise_xor", logical},
      {"__and__", logical},
      {"__or__", logical},
  };
  for (const char* op :
       {"exp",  "log",     "log1p", "expm1", "sqrt",       "rsqrt",     "reciprocal",  "square",
        "tanh", "sigmoid", "silu",  "relu",  "relu6",      "hardswish", "hardsigmoid", "selu",
        "mish", "erf",     "sin",   "cos",   "abs",        "neg",       "sign",        "floor",
        "ceil", "detach",  "round", "trunc", "logical_not"}) {
    rows.push_back({op, unary});
  }
  return rows;
}

}  // namespace hetpipe::graph
