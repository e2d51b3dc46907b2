// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include "tests/cuda/ptx/lanes.h"

// Arithmetic of integers. It wraps, as on a GPU; what a division by zero gives there is not
// defined, and is all ones here.
namespace hetpipe::cuda::ptx {
namespace {

template <class T>
using Wide = std::conditional_t<
    sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, std::int32_t, std::uint32_t>,
    std::conditional_t<sizeof(T) == 4,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>,
                       std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

template <class T>
using Bits = std::make_unsigned_t<T>;
// In a type in which nothing overflows.
template <class T>
T wrapped(unsigned long long value) {
  return static_cast<T>(static_cast<Bits<T>>(value));
}
template <class T>
unsigned long long widened(T value) {
  return static_cast<Bits<T>>(value);
}

template <class T>
bool overflows(T a, T b) {
  if constexpr (std::is_signed_v<T>) return a == std::numeric_limits<T>::min() && b == -1;
  return false;
}

template <class T>
void add_arithmetic(Opcodes& all, const std::string& type) {
  all["add." + type] =
      on_lanes<T, T, T>([](T a, T b) { return wrapped<T>(widened(a) + widened(b)); });
  all["sub." + type] =
      on_lanes<T, T, T>([](T a, T b) { return wrapped<T>(widened(a) - widened(b)); });
  all["mul.lo." + type] =
      on_lanes<T, T, T>([](T a, T b) { return wrapped<T>(widened(a) * widened(b)); });
  all["mul.hi." + type] = on_lanes<T, T, T>(
      [](T a, T b) { return static_cast<T>(Wide<T>{a} * Wide<T>{b} >> (8 * sizeof(T))); });
  all["mad.lo." + type] = on_lanes<T, T, T, T>(
      [](T a, T b, T c) { return wrapped<T>(widened(a) * widened(b) + widened(c)); });
  all["div." + type] = on_lanes<T, T, T>([](T a, T b) {
    return b == 0 ? static_cast<T>(~T{0}) : overflows(a, b) ? a : static_cast<T>(a / b);
  });
  all["rem." + type] = on_lanes<T, T, T>([](T a, T b) {
    return b == 0 ? static_cast<T>(~T{0}) : overflows(a, b) ? T{0} : static_cast<T>(a % b);
  });
  all["min." + type] = on_lanes<T, T, T>([](T a, T b) { return std::min(a, b); });
  all["max." + type] = on_lanes<T, T, T>([](T a, T b) { return std::max(a, b); });
  if constexpr (sizeof(T) < 8) {
    using W = Wide<T>;
    all["mul.wide." + type] = on_lanes<W, T, T>([](T a, T b) { return W{a} * W{b}; });
    all["mad.wide." + type] = on_lanes<W, T, T, W>(
        [](T a, T b, W c) { return wrapped<W>(widened(W{a} * W{b}) + widened(c)); });
  }
  if constexpr (std::is_signed_v<T>) {
    all["neg." + type] = on_lanes<T, T>([](T a) { return wrapped<T>(-widened(a)); });
    all["abs." + type] = on_lanes<T, T>([](T a) { return a < 0 ? wrapped<T>(-widened(a)) : a; });
  }
}

}  // namespace

void add_integer_opcodes(Opcodes& all) {
  add_arithmetic<std::int16_t>(all, "s16");
  add_arithmetic<std::uint16_t>(all, "u16");
  add_arithmetic<std::int32_t>(all, "s32");
  add_arithmetic<std::uint32_t>(all, "u32");
  add_arithmetic<std::int64_t>(all, "s64");
  add_arithmetic<std::uint64_t>(all, "u64");
}

}  // namespace hetpipe::cuda::ptx
