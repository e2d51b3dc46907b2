// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/cuda/ptx/lanes.h"

// setp and selp. Comparisons of floats are false where an operand is NaN; those that end in u are
// true there.
namespace hetpipe::cuda::ptx {
namespace {

template <class T, class F>
void add_comparison(Opcodes& all, const std::string& name, const std::string& type, F compare) {
  all["setp." + name + "." + type] = on_lanes<bool, T, T>(compare);
}

template <class T>
void add_equalities(Opcodes& all, const std::string& type) {
  add_comparison<T>(all, "eq", type, [](T a, T b) { return a == b; });
  add_comparison<T>(all, "ne", type, [](T a, T b) { return a != b; });
}
template <class T>
void add_orders(Opcodes& all, const std::string& type) {
  add_equalities<T>(all, type);
  add_comparison<T>(all, "lt", type, [](T a, T b) { return a < b; });
  add_comparison<T>(all, "le", type, [](T a, T b) { return a <= b; });
  add_comparison<T>(all, "gt", type, [](T a, T b) { return a > b; });
  add_comparison<T>(all, "ge", type, [](T a, T b) { return a >= b; });
}
template <class T>
void add_floats(Opcodes& all, const std::string& type) {
  add_orders<T>(all, type);
  // Ordered: false for NaN, unlike C++'s !=.
  add_comparison<T>(all, "ne", type, [](T a, T b) { return a < b || a > b; });
  add_comparison<T>(all, "equ", type, [](T a, T b) { return !(a < b || a > b); });
  add_comparison<T>(all, "neu", type, [](T a, T b) { return !(a == b); });
  add_comparison<T>(all, "ltu", type, [](T a, T b) { return !(a >= b); });
  add_comparison<T>(all, "leu", type, [](T a, T b) { return !(a > b); });
  add_comparison<T>(all, "gtu", type, [](T a, T b) { return !(a <= b); });
  add_comparison<T>(all, "geu", type, [](T a, T b) { return !(a < b); });
  add_comparison<T>(all, "num", type, [](T a, T b) { return !std::isnan(a) && !std::isnan(b); });
  add_comparison<T>(all, "nan", type, [](T a, T b) { return std::isnan(a) || std::isnan(b); });
}

template <class T>
void add_choice(Opcodes& all, const std::string& types) {
  for (const char kind : types.substr(0, types.find_first_of("0123456789"))) {
    all["selp." + std::string(1, kind) + types.substr(types.find_first_of("0123456789"))] =
        on_lanes<T, T, T, bool>([](T a, T b, bool first) { return first ? a : b; });
  }
}

}  // namespace

void add_comparison_opcodes(Opcodes& all) {
  add_equalities<std::uint16_t>(all, "b16");
  add_equalities<std::uint32_t>(all, "b32");
  add_equalities<std::uint64_t>(all, "b64");
  add_orders<std::int16_t>(all, "s16");
  add_orders<std::uint16_t>(all, "u16");
  add_orders<std::int32_t>(all, "s32");
  add_orders<std::uint32_t>(all, "u32");
  add_orders<std::int64_t>(all, "s64");
  add_orders<std::uint64_t>(all, "u64");
  add_floats<float>(all, "f32");
  add_floats<double>(all, "f64");
  add_choice<std::uint16_t>(all, "bus16");
  add_choice<std::uint32_t>(all, "busf32");
  add_choice<std::uint64_t>(all, "busf64");
}

}  // namespace hetpipe::cuda::ptx
