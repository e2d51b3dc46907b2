// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "kernels/element.h"
#include "tests/cuda/ptx/lanes.h"

// cvt. A register may be wider than the type that is read from it or written to it.
namespace hetpipe::cuda::ptx {
namespace {

// ---- Between integers: as C++ does, sign or zero above.

template <class To, class From>
void between_integers(Block& block, const Instruction& instruction, Lanes lanes) {
  const bool to_wide = instruction.to_is_wide(0), from_wide = instruction.from_is_wide(0);
  for_lanes(lanes, [&](unsigned l) {
    const std::uint64_t slot = from_wide ? slots<std::uint64_t>(block, instruction.from[0])[l]
                                         : slots<std::uint32_t>(block, instruction.from[0])[l];
    const auto value = static_cast<To>(static_cast<From>(slot));
    if (to_wide) {
      slots<std::uint64_t>(block, instruction.to[0])[l] =
          static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
    } else if (sizeof(To) < 4 && !std::is_signed_v<To>) {
      slots<std::uint32_t>(block, instruction.to[0])[l] = static_cast<std::uint32_t>(value);
    } else {
      // Into 16 bits where the register has as many: what is above is never read.
      slots<std::uint32_t>(block, instruction.to[0])[l] =
          static_cast<std::uint32_t>(static_cast<std::int64_t>(value));
    }
  });
}
template <class To, class From>
void add_integers(Opcodes& all, const std::string& to, const std::string& from) {
  all["cvt." + to + "." + from] = {.execute = &between_integers<To, From>,
                                   .flow = Flow::none,
                                   .has_result = true,
                                   .least_operands = 1};
}
template <class To>
void add_integers_to(Opcodes& all, const std::string& to) {
  add_integers<To, std::int8_t>(all, to, "s8");
  add_integers<To, std::uint8_t>(all, to, "u8");
  add_integers<To, std::int16_t>(all, to, "s16");
  add_integers<To, std::uint16_t>(all, to, "u16");
  add_integers<To, std::int32_t>(all, to, "s32");
  add_integers<To, std::uint32_t>(all, to, "u32");
  add_integers<To, std::int64_t>(all, to, "s64");
  add_integers<To, std::uint64_t>(all, to, "u64");
}

// ---- From floats to integers: what is out of range becomes the nearest that is there. NaN: zero,
// or for 64 bits, or from 64 bits, the highest bit alone.

template <class To, class From>
To clamped(From value) {
  if (std::isnan(value)) {
    return sizeof(To) == 8 || sizeof(From) == 8 ? static_cast<To>(To{1} << (8 * sizeof(To) - 1))
                                                : To{0};
  }
  const auto most = static_cast<From>(std::numeric_limits<To>::max());  // may round up
  if (value >= most) {
    return std::numeric_limits<To>::max();
  }
  if (value <= static_cast<From>(std::numeric_limits<To>::min())) {
    return std::numeric_limits<To>::min();
  }
  return static_cast<To>(value);
}
template <class To, class From>
void add_to_integer(Opcodes& all, const std::string& types) {
  all["cvt.rni." + types] =
      on_lanes<To, From>([](From x) { return clamped<To>(std::nearbyint(x)); });
  all["cvt.rzi." + types] = on_lanes<To, From>([](From x) { return clamped<To>(std::trunc(x)); });
  all["cvt.rmi." + types] = on_lanes<To, From>([](From x) { return clamped<To>(std::floor(x)); });
  all["cvt.rpi." + types] = on_lanes<To, From>([](From x) { return clamped<To>(std::ceil(x)); });
}
template <class From>
void add_to_integers(Opcodes& all, const std::string& from) {
  add_to_integer<std::int32_t, From>(all, "s32." + from);
  add_to_integer<std::uint32_t, From>(all, "u32." + from);
  add_to_integer<std::int64_t, From>(all, "s64." + from);
  add_to_integer<std::uint64_t, From>(all, "u64." + from);
}

template <class T>
void add_roundings(Opcodes& all, const std::string& type) {
  const std::string types = type + "." + type;
  all["cvt.rni." + types] = on_lanes<T, T>([](T x) { return std::nearbyint(x); });
  all["cvt.rzi." + types] = on_lanes<T, T>([](T x) { return std::trunc(x); });
  all["cvt.rmi." + types] = on_lanes<T, T>([](T x) { return std::floor(x); });
  all["cvt.rpi." + types] = on_lanes<T, T>([](T x) { return std::ceil(x); });
}

template <class To, class From>
void add_from_integer(Opcodes& all, const std::string& types) {
  all["cvt.rn." + types] = on_lanes<To, From>([](From x) { return static_cast<To>(x); });
}
template <class To>
void add_from_integers(Opcodes& all, const std::string& to) {
  add_from_integer<To, std::int16_t>(all, to + ".s16");
  add_from_integer<To, std::uint16_t>(all, to + ".u16");
  add_from_integer<To, std::int32_t>(all, to + ".s32");
  add_from_integer<To, std::uint32_t>(all, to + ".u32");
  add_from_integer<To, std::int64_t>(all, to + ".s64");
  add_from_integer<To, std::uint64_t>(all, to + ".u64");
}

using Half = std::uint16_t;

}  // namespace

void add_conversion_opcodes(Opcodes& all) {
  add_integers_to<std::int8_t>(all, "s8");
  add_integers_to<std::uint8_t>(all, "u8");
  add_integers_to<std::int16_t>(all, "s16");
  add_integers_to<std::uint16_t>(all, "u16");
  add_integers_to<std::int32_t>(all, "s32");
  add_integers_to<std::uint32_t>(all, "u32");
  add_integers_to<std::int64_t>(all, "s64");
  add_integers_to<std::uint64_t>(all, "u64");
  add_to_integers<float>(all, "f32");
  add_to_integers<double>(all, "f64");
  add_roundings<float>(all, "f32");
  add_roundings<double>(all, "f64");
  add_from_integers<float>(all, "f32");
  add_from_integers<double>(all, "f64");
  all["cvt.f64.f32"] = on_lanes<double, float>([](float x) { return double{x}; });
  all["cvt.rn.f32.f64"] = on_lanes<float, double>([](double x) { return static_cast<float>(x); });
  // Into 0 to 1, NaN to 0.
  all["cvt.sat.f32.f32"] =
      on_lanes<float, float>([](float x) { return x > 0 ? (x < 1 ? x : 1.0f) : 0.0f; });
  all["cvt.rn.f16.f32"] = on_lanes<Half, float>([](float x) { return Fp16(x).bits; });
  all["cvt.f32.f16"] = on_lanes<float, Half>([](Half bits) {
    Fp16 half;
    half.bits = bits;
    return static_cast<float>(half);
  });
  all["cvt.rn.bf16.f32"] = on_lanes<Half, float>([](float x) { return Bf16(x).bits; });
}

}  // namespace hetpipe::cuda::ptx
