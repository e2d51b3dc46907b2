// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda/ptx/opcodes.h"

namespace hetpipe::cuda::ptx {

Opcode find_opcode(const std::string& name) {
  static const Opcodes all = [] {
    Opcodes table;
    add_integer_opcodes(table);
    add_bit_opcodes(table);
    add_float_opcodes(table);
    add_comparison_opcodes(table);
    add_conversion_opcodes(table);
    add_move_opcodes(table);
    add_memory_opcodes(table);
    add_warp_opcodes(table);
    return table;
  }();
  const auto at = all.find(name);
  return at == all.end() ? Opcode{} : at->second;
}

}  // namespace hetpipe::cuda::ptx
