// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/kernels/algebra_cases.h"

#include <limits>

#include "base/random.h"

namespace hetpipe::test {
namespace algebra_cases {

using Extents = std::vector<std::int64_t>;

Operand input(int index, Extents strides, std::int64_t offset = 0) {
  return {Source::input, index, offset, std::move(strides)};
}
Operand parameter(int index, Extents strides, std::int64_t offset = 0) {
  return {Source::parameter, index, offset, std::move(strides)};
}
Operand constant(int index, Extents strides, std::int64_t offset = 0) {
  return {Source::constant, index, offset, std::move(strides)};
}
Operand gathered(Operand o, std::vector<std::int32_t> table, Extents strides) {
  o.table = ConstantTable(std::move(table));
  o.table_strides = std::move(strides);
  return o;
}
ParameterShape weight(const Shape& shape) { return {"weight", shape, Initial::uniform, 1}; }
ConstantTable<float> numbers(std::uint64_t key, std::int64_t count) {
  return ConstantTable(normal_values(key, count));
}
// Places in [0, below), not in order.
std::vector<std::int32_t> places(std::int64_t count, std::int64_t below) {
  std::vector<std::int32_t> all;
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back(static_cast<std::int32_t>((7 * i + 3) % below));
  }
  return all;
}

// a*b + sin(c) and the like: every operand is in the derivative of another.
Expression three_way() {
  Expression e;
  const int a = e.variable(0), b = e.variable(1), c = e.variable(2);
  const int product = e.apply("mul", {a, b});
  const int sine = e.apply("sin", {e.apply("mul", {c, e.number(0.7f)})});
  e.apply("add", {e.apply("tanh", {product}), e.apply("mul", {sine, a})});
  return e;
}
Expression two_way() {
  Expression e;
  const int a = e.variable(0), b = e.variable(1);
  e.apply("mul", {e.apply("sigmoid", {a}), b});
  return e;
}
Expression sum_of_two() {
  Expression e;
  const int a = e.variable(0), b = e.variable(1);
  e.apply("add", {a, b});
  return e;
}

// Of (N, rows, columns): each kind of operand once.
void add_pointwise(std::vector<LayerCase>& cases, std::int64_t n, std::int64_t rows,
                   std::int64_t columns) {
  const Extents loops{rows, columns}, plain{columns, 1};
  const Shape in{n, rows, columns}, row{n, columns}, column{n, rows, 1};
  // Residual sum, and of one input with itself.
  cases.push_back({Pointwise{sum_of_two(), {input(0, plain), input(1, plain)}, loops}, {in, in}});
  cases.push_back({Pointwise{two_way(), {input(0, plain), input(0, plain)}, loops}, {in}});
  // Broadcasts of a row, a column and a sample's single number.
  cases.push_back(
      {Pointwise{three_way(), {input(0, plain), input(1, {0, 1}), input(2, {1, 0})}, loops},
       {in, row, column}});
  cases.push_back({Pointwise{two_way(), {input(0, {0, 0}), input(1, plain)}, loops}, {{n, 1}, in}});
  // Parameters by column, by row, by element, and one number; constants.
  for (const auto& [shape, strides] : {std::pair{Shape{columns}, Extents{0, 1}},
                                       {Shape{rows}, Extents{1, 0}},
                                       {Shape{rows, columns}, plain},
                                       {Shape{1}, Extents{0, 0}}}) {
    cases.push_back(
        {Pointwise{two_way(), {parameter(0, strides), input(0, plain)}, loops, {weight(shape)}},
         {in}});
    cases.push_back({Pointwise{three_way(),
                               {input(0, plain), parameter(0, strides), constant(0, strides)},
                               loops,
                               {weight(shape)},
                               {numbers(5, shape.elements())}},
                     {in}});
  }
  // Backwards, transposed, and halves of one input swapped with a sign: a rotary embedding.
  cases.push_back({Pointwise{two_way(),
                             {input(0, {columns, -1}, columns - 1),
                              input(1, {-columns, 1}, (rows - 1) * columns)},
                             loops},
                   {in, in}});
  cases.push_back({Pointwise{two_way(), {input(0, {1, rows}), input(1, plain)}, loops}, {in, in}});
  // A part of a longer input; what lies outside has gradient 0.
  cases.push_back(
      {Pointwise{
           two_way(), {input(0, {2 * columns, 1}, columns), input(0, {2 * columns, 1})}, loops},
       {{n, rows, 2 * columns}}});
  cases.push_back({Pointwise{two_way(), {input(0, {2 * columns, 2}), input(1, plain)}, loops},
                   {{n, rows, 2 * columns}, in}});
  // Gathered by tables: rows of a parameter, elements of an input several times.
  cases.push_back({Pointwise{two_way(),
                             {gathered(parameter(0, {0, 1}),
                                       [&] {
                                         auto t = places(rows, 4);
                                         for (auto& p : t) p *= static_cast<std::int32_t>(columns);
                                         return t;
                                       }(),
                                       {1, 0}),
                              gathered(input(0, {columns, 0}), places(columns, columns), {0, 1})},
                             loops,
                             {weight({4, columns})}},
                   {in}});
}

// One input (N, T, 2, D): x * cos + rotated(x) * sin, the rotation by a piece of strides each.
LayerCase rotary(std::int64_t n, std::int64_t tokens, std::int64_t heads, std::int64_t half) {
  Expression e;
  const int own = e.variable(0), other = e.variable(1), cosine = e.variable(2);
  const int sine = e.variable(3);
  e.apply("add", {e.apply("mul", {own, cosine}), e.apply("mul", {other, sine})});
  const std::int64_t width = 2 * half;
  return {Pointwise{e,
                    {input(0, {heads * width, width, half, 1}),
                     input(0, {heads * width, width, -half, 1}, half),
                     constant(0, {width, 0, half, 1}), constant(1, {width, 0, half, 1})},
                    {tokens, heads, 2, half},
                    {},
                    {numbers(8, tokens * width), numbers(9, tokens * width)}},
          {{n, tokens, heads, width}}};
}

void add_moves(std::vector<LayerCase>& cases, std::int64_t n, std::int64_t rows,
               std::int64_t columns) {
  const Shape in{n, rows, columns};
  const Extents plain{columns, 1}, loops{rows, columns};
  cases.push_back(  // transposed
      {Move{{columns, rows}, {{{columns, rows}, input(0, {1, columns}), 0, {rows, 1}}}}, {in}});
  cases.push_back(  // side by side with another, and a parameter in front
      {Move{{rows, 2 * columns + 1},
            {{{rows, 1}, parameter(0, {0, 0}), 0, {2 * columns + 1, 1}},
             {loops, input(0, plain), 1, {2 * columns + 1, 1}},
             {loops, input(1, plain), 1 + columns, {2 * columns + 1, 1}}},
            0,
            {weight({1})}},
       {in, in}});
  cases.push_back(  // padded, every second column
      {Move{{rows + 2, columns},
            {{{rows, (columns + 1) / 2}, input(0, {columns, 2}), columns, {columns, 1}}},
            -1.5f},
       {in}});
  cases.push_back(  // rolled by one column: two pieces
      {Move{{rows, columns},
            {{{rows, columns - 1}, input(0, plain), 1, plain},
             {{rows, 1}, input(0, plain, columns - 1), 0, plain}}},
       {in}});
  cases.push_back(  // repeated, and backwards
      {Move{{3, rows, columns},
            {{{3, rows, columns},
              input(0, {0, columns, -1}, columns - 1),
              0,
              {rows * columns, columns, 1}}}},
       {in}});
  cases.push_back(  // rows of a parameter by a table
      {Move{{rows + 1, columns},
            {{{rows, columns},
              gathered(parameter(0, {0, 1}),
                       [&] {
                         auto t = places(rows, 5);
                         for (auto& p : t) p *= static_cast<std::int32_t>(columns);
                         return t;
                       }(),
                       {1, 0}),
              columns,
              plain},
             {{1, columns}, input(0, plain), 0, plain}},
            0,
            {weight({5, columns})}},
       {in}});
  cases.push_back(  // the last row alone
      {Move{{columns}, {{{columns}, input(0, {1}, (rows - 1) * columns), 0, {1}}}}, {in}});
  cases.push_back(  // of a constant
      {Move{{2, columns},
            {{{1, columns}, constant(0, {0, 1}), 0, plain},
             {{1, columns}, input(0, plain), columns, plain}},
            0,
            {},
            {numbers(3, columns)}},
       {in}});
}

void add_reductions(std::vector<LayerCase>& cases, std::int64_t n, std::int64_t rows,
                    std::int64_t columns) {
  const Shape in{n, rows, columns};
  for (const Reduce::Kind kind :
       {Reduce::Kind::sum, Reduce::Kind::mean, Reduce::Kind::maximum, Reduce::Kind::minimum,
        Reduce::Kind::first_maximum, Reduce::Kind::first_minimum}) {
    cases.push_back({Reduce{kind, input(0, {columns, 1}), {rows}, {columns}}, {in}});
    cases.push_back({Reduce{kind, input(0, {1, columns}), {columns}, {rows}}, {in}});
    cases.push_back({Reduce{kind, input(0, {columns, 1}), {}, {rows, columns}}, {in}});
    cases.push_back({Reduce{kind, input(0, {1, 0, columns}), {columns, 2}, {rows}}, {in}});
  }
}

void add_products(std::vector<LayerCase>& cases, std::int64_t n, std::int64_t rows,
                  std::int64_t columns) {
  const std::int64_t inner = 5, heads = 3;
  const Shape a{n, heads, rows, inner}, b{n, heads, inner, columns};
  const Extents plain_a{rows * inner, inner, 1}, plain_b{inner * columns, columns, 1};
  const auto product = [&](Operand left, Operand right, std::vector<int> order = {},
                           std::vector<ParameterShape> parameters = {},
                           std::vector<ConstantTable<float>> constants = {}) {
    return Product{std::move(left),
                   std::move(right),
                   {heads},
                   rows,
                   columns,
                   inner,
                   0.5f,
                   std::move(order),
                   std::move(parameters),
                   std::move(constants)};
  };
  cases.push_back({product(input(0, plain_a), input(1, plain_b)), {a, b}});
  cases.push_back(  // both transposed; heads second from the end in the output
      {product(input(0, {rows * inner, 1, rows}), input(1, {inner * columns, 1, inner}), {1, 0, 2}),
       {{n, heads, inner, rows}, {n, heads, columns, inner}}});
  cases.push_back(  // rows and columns in turn in the output; one input holds both
      {product(input(0, {rows * inner, inner, 1}),
               input(0, {inner * columns, columns, 1}, heads * rows * inner), {0, 2, 1}),
       {{n, heads * (rows * inner + inner * columns)}}});
  cases.push_back(  // a parameter, the same for all heads
      {product(input(0, plain_a), parameter(0, {0, columns, 1}), {}, {weight({inner, columns})}),
       {a}});
  cases.push_back(
      {product(parameter(0, {0, inner, 1}), input(0, plain_b), {}, {weight({rows, inner})}), {b}});
  cases.push_back(
      {product(constant(0, {0, inner, 1}), input(0, plain_b), {}, {}, {numbers(4, rows * inner)}),
       {b}});
  cases.push_back(  // strides that no matrix has; an input that is broadcast
      {product(input(0, {0, 2 * inner, 2}), input(1, plain_b)), {{n, rows, 2 * inner}, b}});
  cases.push_back({Product{input(0, {inner, 1}), input(1, {columns, 1}), {}, rows, columns, inner},
                   {{n, rows, inner}, {n, inner, columns}}});
}

Attention attention(int heads, int kv_heads, std::int64_t queries, std::int64_t keys,
                    std::int64_t features) {
  Attention a;
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.queries = queries;
  a.keys = keys;
  a.features = features;
  a.value_features = features;
  a.scale = 0.37f;
  return a;
}
// Queries, keys and values side by side in each token of one input.
LayerCase packed(std::int64_t n, int heads, std::int64_t tokens, std::int64_t features, bool causal,
                 float dropout = 0) {
  Attention a = attention(heads, heads, tokens, tokens, features);
  const std::int64_t width = heads * features;
  a.query = input(0, {features, 3 * width, 1});
  a.key = input(0, {features, 3 * width, 1}, width);
  a.value = input(0, {features, 3 * width, 1}, 2 * width);
  a.causal = causal;
  a.dropout = dropout;
  return {a, {{n, tokens, 3 * width}}};
}
// Three inputs, (N, queries, heads, features) and (N, kv_heads, keys, features), and values of
// other features.
LayerCase apart(std::int64_t n, int heads, int kv_heads, std::int64_t queries, std::int64_t keys,
                std::int64_t features, std::int64_t value_features) {
  Attention a = attention(heads, kv_heads, queries, keys, features);
  a.value_features = value_features;
  a.query = input(0, {features, heads * features, 1});
  a.key = input(1, {keys * features, features, 1});
  a.value = input(2, {keys * value_features, value_features, 1});
  return {a,
          {{n, queries, heads, features},
           {n, kv_heads, keys, features},
           {n, kv_heads, keys, value_features}}};
}

void add_attention(std::vector<LayerCase>& cases, std::int64_t n, int heads, std::int64_t tokens,
                   std::int64_t features) {
  for (const bool causal : {false, true}) {
    cases.push_back(packed(n, heads, tokens, features, causal));
    cases.push_back(packed(n, heads, tokens, features, causal, 0.3f));
    LayerCase grouped = apart(n, 2 * heads, heads, tokens, tokens + 3, features, features + 1);
    std::get<Attention>(grouped.spec).causal = causal;
    cases.push_back(grouped);
  }
  // Masks: a constant that hides (for one query everything), a parameter, an input.
  const std::int64_t keys = tokens + 2;
  LayerCase masked = apart(n, heads, heads, tokens, keys, features, features);
  Attention& hidden = std::get<Attention>(masked.spec);
  std::vector<float> mask(static_cast<std::size_t>(tokens * keys), 0.0f);
  for (std::int64_t i = 0; i < tokens * keys; ++i) {
    if (i / keys == 1 || (3 * i) % 4 == 1) {
      mask[static_cast<std::size_t>(i)] = -std::numeric_limits<float>::infinity();
    }
  }
  hidden.mask = constant(0, {0, keys, 1});
  hidden.constants = {ConstantTable(mask)};
  cases.push_back(masked);
  LayerCase biased = apart(n, heads, heads, tokens, keys, features, features);
  Attention& bias = std::get<Attention>(biased.spec);
  bias.mask = parameter(0, {tokens * keys, keys, 1});
  bias.parameters = {weight({heads, tokens, keys})};
  cases.push_back(biased);
  // By relative position, as BEiT's and Swin's.
  LayerCase relative = packed(n, heads, tokens, features, false);
  Attention& table = std::get<Attention>(relative.spec);
  std::vector<std::int32_t> distance;
  for (std::int64_t i = 0; i < tokens * tokens; ++i) {
    distance.push_back(static_cast<std::int32_t>((i / tokens - i % tokens + tokens - 1) * heads));
  }
  table.mask = gathered(parameter(0, {1, 0, 0}), distance, {0, tokens, 1});
  table.parameters = {weight({2 * tokens - 1, heads})};
  cases.push_back(relative);
  LayerCase given = apart(n, heads, heads, tokens, keys, features, features);
  std::get<Attention>(given.spec).mask = input(3, {0, keys, 1});
  given.inputs.push_back({n, tokens, keys});
  cases.push_back(given);
}

}  // namespace algebra_cases

using namespace algebra_cases;

std::vector<std::int64_t> plain_strides(const std::vector<std::int64_t>& extents) {
  std::vector<std::int64_t> strides(extents.size(), 1);
  for (std::size_t i = extents.size(); i-- > 1;) strides[i - 1] = strides[i] * extents[i];
  return strides;
}

LayerCase pointwise_case(std::string_view op, const Shape& in) {
  Expression e;
  LayerCase c;
  Pointwise p;
  std::vector<int> arguments;
  for (int i = 0; i < arity(pointwise_operator(op)); ++i) {
    arguments.push_back(e.variable(i));
    p.operands.push_back(input(i, {1}));
    c.inputs.push_back(in);
  }
  switch (arguments.size()) {
    case 1:
      e.apply(op, {arguments[0]});
      break;
    case 2:
      e.apply(op, {arguments[0], arguments[1]});
      break;
    default:
      e.apply(op, {arguments[0], arguments[1], arguments[2]});
  }
  p.expression = e;
  p.extents = {in.elements() / in[0]};
  c.spec = p;
  return c;
}

std::vector<LayerCase> small_algebra_cases() {
  std::vector<LayerCase> cases;
  add_pointwise(cases, 2, 3, 5);
  cases.push_back(rotary(2, 3, 2, 2));
  add_moves(cases, 2, 3, 5);
  add_reductions(cases, 2, 3, 4);
  add_products(cases, 2, 3, 4);
  add_attention(cases, 2, 2, 4, 3);
  for (const bool logarithm : {false, true}) {
    cases.push_back({Softmax{logarithm}, {{3, 5}}});
    cases.push_back({Softmax{logarithm}, {{2, 3, 4}}});
  }
  cases.push_back({CumulativeSum{}, {{3, 5}}});
  cases.push_back({CumulativeSum{}, {{2, 4, 3}}});
  return cases;
}

std::vector<LayerCase> large_algebra_cases() {
  std::vector<LayerCase> cases;
  add_pointwise(cases, 3, 37, 130);
  add_pointwise(cases, 1, 700, 6);
  add_pointwise(cases, 2, 5, 1030);
  cases.push_back(rotary(2, 33, 4, 16));
  for (const char* op : {"relu",    "relu6",    "selu",      "gelu",        "gelu_tanh",  "silu",
                         "mish",    "softplus", "hardswish", "hardsigmoid", "leaky_relu", "tanh",
                         "sigmoid", "erf",      "sin",       "cos",         "exp",        "expm1",
                         "abs",     "square",   "where",     "maximum",     "minimum",    "mul"}) {
    cases.push_back(pointwise_case(op, {3, 700}));
  }
  add_moves(cases, 2, 33, 70);
  add_moves(cases, 1, 130, 17);
  add_reductions(cases, 2, 33, 70);
  add_reductions(cases, 1, 300, 9);
  add_products(cases, 2, 33, 40);
  add_attention(cases, 2, 3, 33, 16);
  for (const bool logarithm : {false, true}) {
    cases.push_back({Softmax{logarithm}, {{3, 1001}}});
    cases.push_back({Softmax{logarithm}, {{2, 33, 70}}});
  }
  cases.push_back({CumulativeSum{}, {{3, 501}}});
  cases.push_back({CumulativeSum{}, {{2, 70, 33}}});
  return cases;
}

}  // namespace hetpipe::test
