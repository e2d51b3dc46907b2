// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/lanes.h"

// mov, also between a register and the halves of it, and cvta.
namespace hetpipe::cuda::ptx {
namespace {

// {a, b} = c, or a = {b, c}: the first part is the lowest.
template <class Whole, class Part>
void take_apart_or_join(Block& block, const Instruction& instruction, Lanes lanes) {
  constexpr unsigned parts = sizeof(Whole) / sizeof(Part), bits = 8 * sizeof(Part);
  const bool joins = instruction.from[1] != kNowhere;
  for_lanes(lanes, [&](unsigned l) {
    if (joins) {
      Whole whole = 0;
      for (unsigned p = 0; p < parts; ++p) {
        const Part part = Held<Part>::get(slots<Part>(block, instruction.from[p])[l]);
        whole = static_cast<Whole>(whole | static_cast<Whole>(part) << (bits * p));
      }
      slots<Whole>(block, instruction.to[0])[l] = whole;
    } else {
      const Whole whole = Held<Whole>::get(slots<Whole>(block, instruction.from[0])[l]);
      for (unsigned p = 0; p < parts; ++p) {
        if (instruction.to[p] == kNowhere) continue;
        slots<Part>(block, instruction.to[p])[l] =
            Held<Part>::put(static_cast<Part>(whole >> (bits * p)));
      }
    }
  });
}
template <class T>
void move_lanes(Block& block, const Instruction& instruction, Lanes lanes) {
  const SlotOf<T>* const from = slots<T>(block, instruction.from[0]);
  SlotOf<T>* const to = slots<T>(block, instruction.to[0]);
  for_lanes(lanes, [&](unsigned l) { to[l] = from[l]; });
}
template <class Whole, class Part>
void move_bits(Block& block, const Instruction& instruction, Lanes lanes) {
  (instruction.count > 1 ? take_apart_or_join<Whole, Part> : move_lanes<Whole>)(block, instruction,
                                                                                lanes);
}

Opcode move_opcode(Execute execute, bool wide) {
  return {.execute = execute,
          .flow = Flow::none,
          .has_result = true,
          .least_operands = 1,
          .wide_constants = static_cast<std::uint8_t>(wide ? 0xff : 0),
          .narrow_parts = true};
}
// Registers of one width.
Opcode plain_move(Execute execute, bool wide) {
  Opcode opcode = move_opcode(execute, wide);
  opcode.wide_mask = 0x11;
  opcode.wide = wide ? 0x11 : 0;
  return opcode;
}

}  // namespace

void add_move_opcodes(Opcodes& all) {
  all["mov.pred"] = on_lanes<bool, bool>([](bool x) { return x; });
  for (const char* const type : {"u16", "s16"})
    all[std::string("mov.") + type] = plain_move(&move_lanes<std::uint16_t>, false);
  for (const char* const type : {"u32", "s32", "f32"})
    all[std::string("mov.") + type] = plain_move(&move_lanes<std::uint32_t>, false);
  for (const char* const type : {"u64", "s64", "f64"})
    all[std::string("mov.") + type] = plain_move(&move_lanes<std::uint64_t>, true);
  all["mov.b16"] = move_opcode(&move_lanes<std::uint16_t>, false);
  all["mov.b32"] = move_opcode(&move_bits<std::uint32_t, std::uint16_t>, false);
  all["mov.b64"] = move_opcode(&move_bits<std::uint64_t, std::uint32_t>, true);
  // A generic address is one inside of its space, plus the space's window.
  using Address = std::uint64_t;
  for (const char* const to : {"", "to."}) {
    all[std::string("cvta.") + to + "global.u64"] =
        on_lanes<Address, Address>([](Address a) { return a; });
  }
  all["cvta.shared.u64"] =
      on_lanes<Address, Address>([](Address a) { return a + window_of(Space::shared); });
  all["cvta.local.u64"] =
      on_lanes<Address, Address>([](Address a) { return a + window_of(Space::local); });
  all["cvta.param.u64"] =
      on_lanes<Address, Address>([](Address a) { return a + window_of(Space::param); });
  all["cvta.to.shared.u64"] =
      on_lanes<Address, Address>([](Address a) { return a - window_of(Space::shared); });
  all["cvta.to.local.u64"] =
      on_lanes<Address, Address>([](Address a) { return a - window_of(Space::local); });
  all["cvta.to.param.u64"] =
      on_lanes<Address, Address>([](Address a) { return a - window_of(Space::param); });
}

}  // namespace hetpipe::cuda::ptx
