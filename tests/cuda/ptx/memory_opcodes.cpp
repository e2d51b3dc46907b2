// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include "tests/cuda/ptx/lanes.h"

// ld, st, and atomics of integers. A register may be wider than what is read into it, which fills
// it with its sign or with zeros.
namespace hetpipe::cuda::ptx {
namespace {

std::uint64_t address_of(Block& block, const Instruction& instruction, unsigned lane) {
  const std::uint64_t base = instruction.from_is_wide(0)
                                 ? slots<std::uint64_t>(block, instruction.from[0])[lane]
                                 : slots<std::uint32_t>(block, instruction.from[0])[lane];
  return base + static_cast<std::uint64_t>(instruction.offset);
}

template <Space kSpace, class T>
void load(Block& block, const Instruction& instruction, Lanes lanes) {
  const unsigned bytes = instruction.count * static_cast<unsigned>(sizeof(T));
  for_lanes(lanes, [&](unsigned l) {
    const std::byte* const from = block.reach(kSpace, l, address_of(block, instruction, l), bytes,
                                              bytes, Block::Access::load);
    for (unsigned i = 0; i < instruction.count; ++i) {
      if (instruction.to[i] == kNowhere) continue;
      T value;
      std::memcpy(&value, from + i * sizeof(T), sizeof(T));
      const auto wide = static_cast<std::uint64_t>(value);  // its sign above
      if (instruction.to_is_wide(i)) {
        slots<std::uint64_t>(block, instruction.to[i])[l] = wide;
      } else {
        slots<std::uint32_t>(block, instruction.to[i])[l] = static_cast<std::uint32_t>(wide);
      }
    }
  });
}

template <Space kSpace, class T>
void store(Block& block, const Instruction& instruction, Lanes lanes) {
  const unsigned bytes = instruction.count * static_cast<unsigned>(sizeof(T));
  for_lanes(lanes, [&](unsigned l) {
    std::array<std::byte, 32> values;
    for (unsigned i = 0; i < instruction.count; ++i) {
      const auto value =
          static_cast<T>(instruction.from_is_wide(i + 1)
                             ? slots<std::uint64_t>(block, instruction.from[i + 1])[l]
                             : slots<std::uint32_t>(block, instruction.from[i + 1])[l]);
      std::memcpy(values.data() + i * sizeof(T), &value, sizeof(T));
    }
    std::byte* const to = block.reach(kSpace, l, address_of(block, instruction, l), bytes, bytes,
                                      Block::Access::store, values.data());
    std::memcpy(to, values.data(), bytes);
  });
}

// Lanes one after another.
template <Space kSpace, class T>
void atomic_add(Block& block, const Instruction& instruction, Lanes lanes) {
  for_lanes(lanes, [&](unsigned l) {
    std::byte* const place = block.reach(kSpace, l, address_of(block, instruction, l), sizeof(T),
                                         sizeof(T), Block::Access::atomic);
    T old;
    std::memcpy(&old, place, sizeof(T));
    const T sum = static_cast<T>(old + Held<T>::get(slots<T>(block, instruction.from[1])[l]));
    std::memcpy(place, &sum, sizeof(T));
    if (instruction.to[0] != kNowhere) slots<T>(block, instruction.to[0])[l] = Held<T>::put(old);
  });
}

// A vector's elements are no wider than its registers: 4 elements in a register of 16 bits have 8
// or 16 bits each.
template <Space kSpace, class T>
void add_type(Opcodes& all, const std::string& load_space, const std::string& store_space,
              const std::string& type) {
  const auto wide = static_cast<std::uint8_t>(sizeof(T) == 8 ? 0xff : 1);
  for (const char* const vector : {".", ".v2.", ".v4."}) {
    all["ld" + load_space + vector + type] = {.execute = &load<kSpace, T>,
                                              .flow = Flow::none,
                                              .has_result = true,
                                              .least_operands = 1,
                                              .wide_constants = 1};
    if (store_space == "-") continue;
    all["st" + store_space + vector + type] = {.execute = &store<kSpace, T>,
                                               .flow = Flow::none,
                                               .has_result = false,
                                               .least_operands = 2,
                                               .wide_constants = wide};
  }
}
template <Space kSpace>
void add_space(Opcodes& all, const std::string& load_space, const std::string& store_space) {
  const auto add = [&]<class T>(T, const char* kinds, const char* bits) {
    for (const char* kind = kinds; *kind != '\0'; ++kind) {
      add_type<kSpace, T>(all, load_space, store_space, *kind + std::string(bits));
    }
  };
  add(std::int8_t{}, "s", "8");
  add(std::uint8_t{}, "ub", "8");
  add(std::int16_t{}, "s", "16");
  add(std::uint16_t{}, "ub", "16");
  add(std::int32_t{}, "s", "32");
  add(std::uint32_t{}, "ubf", "32");
  add(std::uint64_t{}, "subf", "64");
}

template <Space kSpace>
void add_atomics(Opcodes& all, const std::string& space) {
  const auto add = [&]<class T>(T, const char* type) {
    const Opcode opcode = {.execute = &atomic_add<kSpace, T>,
                           .flow = Flow::none,
                           .has_result = true,
                           .least_operands = 2,
                           .wide_constants = static_cast<std::uint8_t>(sizeof(T) == 8 ? 3 : 1)};
    all["atom" + space + ".add." + type] = opcode;
    Opcode& without_result = all["red" + space + ".add." + type] = opcode;
    without_result.has_result = false;
  };
  add(std::uint32_t{}, "u32");
  add(std::uint32_t{}, "s32");
  add(std::uint64_t{}, "u64");
}

}  // namespace

void add_memory_opcodes(Opcodes& all) {
  add_space<Space::generic>(all, "", "");
  add_space<Space::global>(all, ".global", ".global");
  add_space<Space::global>(all, ".global.nc", "-");
  add_space<Space::global>(all, ".const", "-");
  add_space<Space::shared>(all, ".shared", ".shared");
  add_space<Space::local>(all, ".local", ".local");
  add_space<Space::param>(all, ".param", "-");
  add_atomics<Space::generic>(all, "");
  add_atomics<Space::global>(all, ".global");
  add_atomics<Space::shared>(all, ".shared");
}

}  // namespace hetpipe::cuda::ptx
