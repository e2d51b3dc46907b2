// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "base/text.h"
#include "kernels/algebra.h"

// Every field of a layer, as text that differs where layers differ.
namespace hetpipe {
namespace algebra_text {

std::string exact(float value) { return format("%a", static_cast<double>(value)); }

template <class T>
std::string field(const ConstantTable<T>& table) {
  if (table.empty()) return "-";
  const auto bytes = std::as_bytes(std::span(table.data(), static_cast<std::size_t>(table.size())));
  return format("%lld:", static_cast<long long>(table.size())) + to_hex(hash_bytes(bytes));
}

std::string field(const std::vector<std::int64_t>& numbers) {
  std::string all = "(";
  for (const std::int64_t n : numbers) {
    if (all.size() > 1) all += ",";
    all += std::to_string(n);
  }
  return all + ")";
}

std::string field(const Operand& o) {
  constexpr const char* kSources[] = {"input", "parameter", "constant"};
  std::string all = format("[%s %d %lld ", kSources[static_cast<int>(o.source)], o.index,
                           static_cast<long long>(o.offset)) +
                    field(o.strides);
  if (!o.table.empty()) all += " " + field(o.table) + " " + field(o.table_strides);
  return all + "]";
}

std::string field(const std::vector<ParameterShape>& parameters,
                  const std::vector<ConstantTable<float>>& constants) {
  std::string all;
  for (const ParameterShape& p : parameters) {
    all += " " + p.name + to_string(p.shape) + format(" %d ", static_cast<int>(p.initial)) +
           exact(p.bound);
  }
  for (const ConstantTable<float>& c : constants) all += " " + field(c);
  return all;
}

std::string field(const Expression& expression) {
  std::string all;
  for (const Expression::Step& s : expression.steps) {
    switch (s.kind) {
      case Expression::Kind::variable:
        all += format(" v%d", s.variable);
        break;
      case Expression::Kind::number:
        all += " " + exact(s.number);
        break;
      case Expression::Kind::apply:
        all += std::string(" ") + to_string(s.op);
        for (const std::int16_t a : s.arguments) all += a < 0 ? "" : format(",%d", a);
        break;
    }
  }
  return all;
}

}  // namespace algebra_text

using algebra_text::exact;
using algebra_text::field;

std::string full_text(const Pointwise& p) {
  std::string all = "pointwise" + field(p.expression) + " " + field(p.extents);
  for (const Operand& o : p.operands) all += " " + field(o);
  return all + field(p.parameters, p.constants);
}

std::string full_text(const Move& m) {
  std::string all = "move " + field(m.output) + " " + exact(m.fill);
  for (const Move::Piece& p : m.pieces) {
    all += " " + field(p.extents) + field(p.from) +
           format(" %lld ", static_cast<long long>(p.to_offset)) + field(p.to_strides);
  }
  return all + field(m.parameters, m.constants);
}

std::string full_text(const Reduce& r) {
  return format("reduce %d ", static_cast<int>(r.kind)) + field(r.from) + " " + field(r.kept) +
         " " + field(r.reduced);
}

std::string full_text(const Product& p) {
  std::string all = "product " + field(p.a) + " " + field(p.b) + " " + field(p.batch) +
                    format(" %lld %lld %lld ", static_cast<long long>(p.rows),
                           static_cast<long long>(p.columns), static_cast<long long>(p.inner)) +
                    exact(p.scale);
  for (const int o : p.order) all += format(" %d", o);
  return all + field(p.parameters, p.constants);
}

std::string full_text(const Softmax& s) { return s.logarithm ? "log-softmax" : "softmax"; }

std::string full_text(const CumulativeSum&) { return "cumulative-sum"; }

std::string full_text(const Attention& a) {
  return format("attention %d %d %lld %lld %lld %lld %d ", a.heads, a.kv_heads,
                static_cast<long long>(a.queries), static_cast<long long>(a.keys),
                static_cast<long long>(a.features), static_cast<long long>(a.value_features),
                a.causal) +
         exact(a.scale) + " " + exact(a.dropout) + " " + field(a.query) + field(a.key) +
         field(a.value) + (a.mask ? field(*a.mask) : "") + field(a.parameters, a.constants);
}

}  // namespace hetpipe
