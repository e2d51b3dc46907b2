// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "tests/cuda/ptx/lanes.h"

// Bits: logic, shifts (by as many as there are and more: all zeros, or all signs), fields, bytes.
namespace hetpipe::cuda::ptx {
namespace {

template <class T>
void add_logic(Opcodes& all, const std::string& type) {
  all["and." + type] = on_lanes<T, T, T>([](T a, T b) { return static_cast<T>(a & b); });
  all["or." + type] = on_lanes<T, T, T>([](T a, T b) { return static_cast<T>(a | b); });
  all["xor." + type] = on_lanes<T, T, T>([](T a, T b) { return static_cast<T>(a ^ b); });
  all["not." + type] = on_lanes<T, T>([](T a) {
    if constexpr (std::is_same_v<T, bool>)
      return !a;
    else
      return static_cast<T>(~a);
  });
}

template <class T>
T shifted_right(T a, std::uint32_t by) {
  constexpr std::uint32_t bits = 8 * sizeof(T);
  if (by >= bits) return a < T{0} ? static_cast<T>(~T{0}) : T{0};
  return static_cast<T>(a >> by);
}
template <class T>
void add_right_shift(Opcodes& all, const std::string& type) {
  all["shr." + type] =
      on_lanes<T, T, std::uint32_t>([](T a, std::uint32_t by) { return shifted_right(a, by); });
}
template <class T>
void add_left_shift(Opcodes& all, const std::string& type) {
  all["shl." + type] = on_lanes<T, T, std::uint32_t>([](T a, std::uint32_t by) {
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(std::uint64_t{a} << by);
  });
}

template <class T>
T field_mask(std::uint32_t length) {
  return length >= 8 * sizeof(T) ? ~T{0} : static_cast<T>((T{1} << length) - 1);
}
template <class T>
void add_fields(Opcodes& all, const std::string& bits) {
  // Positions and lengths count modulo 256.
  all["bfi.b" + bits] = on_lanes<T, T, T, std::uint32_t, std::uint32_t>(
      [](T from, T into, std::uint32_t at, std::uint32_t length) {
        at &= 0xff;
        length &= 0xff;
        if (at >= 8 * sizeof(T)) return into;
        const T mask = static_cast<T>(field_mask<T>(length) << at);
        return static_cast<T>((into & ~mask) | (static_cast<T>(from << at) & mask));
      });
  all["bfe.u" + bits] = on_lanes<T, T, std::uint32_t, std::uint32_t>(
      [](T from, std::uint32_t at, std::uint32_t length) {
        return static_cast<T>(shifted_right(from, at & 0xff) & field_mask<T>(length & 0xff));
      });
}

std::uint32_t permuted(std::uint32_t a, std::uint32_t b, std::uint32_t selectors) {
  const std::uint64_t bytes = std::uint64_t{b} << 32 | a;
  std::uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t selector = selectors >> (4 * i) & 0xf;
    std::uint32_t byte = static_cast<std::uint32_t>(bytes >> (8 * (selector & 7))) & 0xff;
    if ((selector & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;  // its sign
    result |= byte << (8 * i);
  }
  return result;
}

}  // namespace

void add_bit_opcodes(Opcodes& all) {
  add_logic<bool>(all, "pred");
  add_logic<std::uint16_t>(all, "b16");
  add_logic<std::uint32_t>(all, "b32");
  add_logic<std::uint64_t>(all, "b64");
  add_left_shift<std::uint16_t>(all, "b16");
  add_left_shift<std::uint32_t>(all, "b32");
  add_left_shift<std::uint64_t>(all, "b64");
  for (const char* const kind : {"b", "u"}) {
    add_right_shift<std::uint16_t>(all, kind + std::string("16"));
    add_right_shift<std::uint32_t>(all, kind + std::string("32"));
    add_right_shift<std::uint64_t>(all, kind + std::string("64"));
  }
  add_right_shift<std::int16_t>(all, "s16");
  add_right_shift<std::int32_t>(all, "s32");
  add_right_shift<std::int64_t>(all, "s64");
  add_fields<std::uint32_t>(all, "32");
  add_fields<std::uint64_t>(all, "64");
  all["prmt.b32"] = on_lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      [](std::uint32_t a, std::uint32_t b, std::uint32_t c) { return permuted(a, b, c); });
  all["shf.l.wrap.b32"] = on_lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      [](std::uint32_t low, std::uint32_t high, std::uint32_t by) {
        return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) << (by & 31) >> 32);
      });
  all["shf.r.wrap.b32"] = on_lanes<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>(
      [](std::uint32_t low, std::uint32_t high, std::uint32_t by) {
        return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> (by & 31));
      });
  all["popc.b32"] = on_lanes<std::uint32_t, std::uint32_t>(
      [](std::uint32_t a) { return static_cast<std::uint32_t>(std::popcount(a)); });
  all["clz.b32"] = on_lanes<std::uint32_t, std::uint32_t>(
      [](std::uint32_t a) { return static_cast<std::uint32_t>(std::countl_zero(a)); });
}

}  // namespace hetpipe::cuda::ptx
