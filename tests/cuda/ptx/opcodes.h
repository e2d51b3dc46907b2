// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/cuda/ptx/program.h"

// What instructions do, by their opcodes. Each family of opcodes fills its part of the table.
namespace hetpipe::cuda::ptx {

struct Opcode {
  Execute execute = nullptr;
  Flow flow = Flow::none;
  bool has_result = true;           // the first operand, or its parts
  unsigned least_operands = 0;      // but for the result
  std::uint8_t wide_constants = 0;  // bit i: a number as operand i (7: and later) has 64 bits
  bool narrow_parts = false;        // but for the parts of a vector
  // Which registers must be of 64 bits and which must not (Instruction::wide).
  std::uint16_t wide_mask = 0, wide = 0;
};
using Opcodes = std::map<std::string, Opcode>;

void add_integer_opcodes(Opcodes& all);
void add_bit_opcodes(Opcodes& all);
void add_float_opcodes(Opcodes& all);
void add_comparison_opcodes(Opcodes& all);
void add_conversion_opcodes(Opcodes& all);
void add_move_opcodes(Opcodes& all);
void add_memory_opcodes(Opcodes& all);
void add_warp_opcodes(Opcodes& all);

Opcode find_opcode(const std::string& name);  // execute is null where there is none

}  // namespace hetpipe::cuda::ptx
