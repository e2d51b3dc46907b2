// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/cuda/ptx/block.h"
#include "tests/cuda/ptx/opcodes.h"

// Instructions whose lanes have nothing to do with one another: a function of numbers, applied to
// each lane that runs.
namespace hetpipe::cuda::ptx {

// How a register holds a T: numbers of 8 and 16 bits in 32, with zeros above, predicates as 0 or 1.
template <class T>
struct Held {
  using Slot = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;
  static T get(Slot slot) {
    if constexpr (std::is_same_v<T, bool>) {
      return slot != 0;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(slot);
    } else {
      return std::bit_cast<T>(slot);
    }
  }
  static Slot put(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
      return static_cast<std::make_unsigned_t<T>>(value);
    } else {
      return std::bit_cast<Slot>(value);
    }
  }
};
template <class T>
using SlotOf = typename Held<T>::Slot;

template <class T>
SlotOf<T>* slots(Block& block, Place place) {
  return reinterpret_cast<SlotOf<T>*>(block.registers() + std::size_t{place} * kWarp);
}

template <class Do>
void for_lanes(Lanes lanes, const Do& act) {
  if (lanes == ~0u) {
    for (unsigned l = 0; l < kWarp; ++l) act(l);
  } else {
    for (; lanes != 0; lanes &= lanes - 1) act(static_cast<unsigned>(std::countr_zero(lanes)));
  }
}

namespace detail {
template <class F, class Result, class... From>
void each_lane(Block& block, const Instruction& instruction, Lanes lanes) {
  auto* const to = slots<Result>(block, instruction.to[0]);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    const auto places = std::make_tuple(
        static_cast<const SlotOf<From>*>(slots<From>(block, instruction.from[I]))...);
    for_lanes(lanes, [&](unsigned l) {
      to[l] = Held<Result>::put(F{}(Held<From>::get(std::get<I>(places)[l])...));
    });
  }
  (std::index_sequence_for<From...>{});
}
template <class T>
constexpr unsigned is_wide = sizeof(T) == 8 ? 1 : 0;
}  // namespace detail

// `f` has no captures.
template <class Result, class... From, class F>
Opcode on_lanes(F) {
  unsigned wide = detail::is_wide<Result>, constants = 0, at = 0;
  ((constants |= detail::is_wide<From> << at++), ...);
  wide |= constants << 4;
  return {.execute = &detail::each_lane<F, Result, From...>,
          .flow = Flow::none,
          .has_result = true,
          .least_operands = sizeof...(From),
          .wide_constants = static_cast<std::uint8_t>(constants),
          .wide_mask = static_cast<std::uint16_t>(1u | ((1u << sizeof...(From)) - 1) << 4),
          .wide = static_cast<std::uint16_t>(wide)};
}

}  // namespace hetpipe::cuda::ptx
